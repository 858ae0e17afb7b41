"""The node lock: an annotation on a node that lets one pod at a time reach the device plugin (binding 3).

A Bind asks for the lock (``locks``) and waits in the queue of that lock of that node (``queue``), first come, first
served. When the watch shows the lock removed, the first one sets it with a patch that carries the node's version, so
that one of several processes gets it. After the Bind the lock belongs to the device plugin.

A lock whose owner never removes it is taken over: ``ownercheck`` asks for the owner, ``owner`` is the pure rule.
"""
