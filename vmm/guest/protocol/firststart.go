package protocol

// FirstStartDir is where an image has the programs that make what each box has its own of: private
// keys, the clusters of databases. The agent runs them as root, in the order of their names, once
// in the life of a machine, when it becomes a box; nothing of the user's runs before they have
// ended. Each makes only what is missing.
const FirstStartDir = "/usr/lib/agentbox/first-start"
