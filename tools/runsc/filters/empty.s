// The go command compiles functions without a body in packages that have an assembly file only.
