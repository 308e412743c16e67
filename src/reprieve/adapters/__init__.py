"""How the ports are met: one folder a technology, none of which knows another."""
