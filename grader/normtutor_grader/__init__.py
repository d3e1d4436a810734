"""Grade coursework of normtutor: ``normtutor-grader grade FOLDER --chapter 02``.

Each notebook runs in a process of its own behind a wall; checks and points are in another process.
"""
