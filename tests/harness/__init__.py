"""The real Kubernetes that tests run against: its programs, its processes, its nodes. It must not import gpuloom."""
