"""Stacks of all threads, and the drawing of who waits for what."""

import threading

from omni_verify.engine.stacks import Wait, all_stacks, wait_for_graph


def test_every_thread_is_shown_with_its_innermost_frame_last():
    stop, ready = threading.Event(), threading.Event()

    def a_place_to_stand():
        ready.set()
        stop.wait(30)

    thread = threading.Thread(target=a_place_to_stand, name="stander")
    thread.start()
    try:
        ready.wait(30)
        stacks = all_stacks()
    finally:
        stop.set()
        thread.join(30)
    (frames,) = [v for k, v in stacks.items() if k.startswith("stander (")]
    assert any("in a_place_to_stand" in f for f in frames)
    assert any("test_every_thread_is_shown" in f for f in stacks[f"MainThread ({threading.get_ident()})"])


def test_the_graph_says_who_waits_where_for_what():
    text = wait_for_graph(
        [
            Wait("client", "gate abort.exit(R)", ("put.exit(R_1_0)", "mark(x)")),
            Wait("main", "end of client", ()),
        ],
        {"producer": "put(R_1_0)", "idler": ""},
    )
    assert "client waits at gate abort.exit(R) for put.exit(R_1_0), mark(x)" in text
    assert "main waits at end of client for nothing known" in text
    assert "producer is inside put(R_1_0)" in text
    assert "idler is running its own code" in text
    assert text.index("wait-for graph:") < text.index("stacks:") < text.index("MainThread")
