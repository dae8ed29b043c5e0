"""Recording simulated expert demonstrations: Meta-World tasks, their scripted experts, MuJoCo on the CPU."""
