"""The files of a control-plane node, with the extender put in: text to text, no I/O, no clock."""
