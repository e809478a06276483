"""The linearised flow: Hessians of networks, derivatives of forces, their modes, and what lies near normalisation."""
