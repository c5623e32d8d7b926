"""Treiber stack with node reuse: compare-and-swap succeeds on a head that left and came back."""

import threading


class Node:
    def __init__(self, name):
        self.name = name
        self.next = None
        self.freed = False


class Stack:
    def __init__(self, tagged):
        self.atomic = threading.Lock()
        self.head = None
        self.tag = 0
        self.tagged = tagged

    def swap(self, old, new, tag):
        with self.atomic:
            if self.head is not old or (self.tagged and self.tag != tag):
                return False
            self.head = new
            self.tag += 1
            return True

    def push(self, node):
        while True:
            tag, old = self.tag, self.head
            node.next = old
            if self.swap(old, node, tag):
                return

    def pop(self):
        while True:
            tag = self.tag
            old = self.head
            if old is None:
                return None
            following = old.next
            if self.swap(old, following, tag):
                return old


def _run(tagged):
    stack = Stack(tagged)
    a, b, c = Node("a"), Node("b"), Node("c")
    for node in (c, b, a):
        stack.push(node)

    def slow():
        stack.pop()

    def busy():
        first = stack.pop()
        second = stack.pop()
        if first is None or second is None:
            return
        second.freed = True
        stack.push(first)

    threads = [threading.Thread(target=slow), threading.Thread(target=busy)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    node = stack.head
    while node is not None:
        assert not node.freed, "a freed node is on the stack"
        node = node.next


def buggy():
    _run(tagged=False)


def fixed():
    _run(tagged=True)
