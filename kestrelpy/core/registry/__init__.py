"""The queues of a server: their creation, their deletion, and children that outlive them."""
