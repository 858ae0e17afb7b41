"""HTTP: the listeners of the process and their routes (wire protocol 5, binding 6 and 7).

Requests of kube-scheduler (/filter, /bind), of the API server (/webhook), of kubelets (/healthz, /readyz) and of people
(/debug/pprof/) come in. Bodies with a limit of their size go to the verbs, and their answers go out.

``server`` opens the listeners, ``routes`` has the verbs and the probes, ``webhook`` reads reviews, ``pprof`` shows what
the process does.
"""
