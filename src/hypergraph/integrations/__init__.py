"""What connects the package with other systems; each module needs an extra of its own."""
