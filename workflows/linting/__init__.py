"""Our own lint of rendered workflows: mistakes that Argo's lint lets pass and that hang or hurt at run time."""
