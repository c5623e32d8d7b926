"""SCTBench stack: the reader trusts a flag that is never taken back, and pops an empty stack."""

import threading


class Stack:
    def __init__(self):
        self.lock = threading.Lock()
        self.items = []
        self.pushed = False


def _push(stack):
    for number in range(3):
        with stack.lock:
            stack.items.append(number)
            stack.pushed = True


def _pop_bad(stack):
    for _ in range(3):
        with stack.lock:
            if stack.pushed:
                assert stack.items, "underflow"
                stack.items.pop()


def _pop_good(stack):
    for _ in range(3):
        with stack.lock:
            if stack.items:
                stack.items.pop()


def _run(pop):
    stack = Stack()
    threads = [threading.Thread(target=_push, args=(stack,)), threading.Thread(target=pop, args=(stack,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buggy():
    _run(_pop_bad)


def fixed():
    _run(_pop_good)
