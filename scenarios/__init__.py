"""The catalogue: one module a family; `omni_verify.harness.scenario.load_catalogue` imports them all."""
