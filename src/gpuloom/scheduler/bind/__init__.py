"""The extender's bind verb: the node lock, then one Binding that carries the decision (binding 1 to 3).

The names of a pod and of a node come in. A bound pod goes out, or the reason why it is not bound. A Bind (``verb``)
finds the pod and its reservation, waits for the locks of the node (``nodelock``), and writes one Binding with the node
name and the annotations (``writer``).

What is written takes effect or it does not; when the reply is lost the API server is asked until it answers. A pod that
is certainly not bound gives back lock and reservation. A pod that is bound keeps the lock for its device plugin, which
removes it: until then it is ``underway``. The label of the pod (``podlabel``) follows later where the API server did
not copy it.
"""
