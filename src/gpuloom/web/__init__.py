"""What people see of a scheduler: views as values, their JSON API, and who may see what.

Views only put into words what scheduler and engine know; no rule about cards may be written here, and nothing here
changes anything. The scheduler does not know this package: whoever starts a process puts the two together.
"""
