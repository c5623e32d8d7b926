"""What is checked: the reference, real vllm-omni releases and checkouts, third-party connectors."""
