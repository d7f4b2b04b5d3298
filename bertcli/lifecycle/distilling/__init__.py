"""A distillation: teacher and student, at pre-training and at a task."""
