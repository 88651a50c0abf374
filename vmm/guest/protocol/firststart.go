package protocol

// FirstStartDir is where an image has the programs that make what each box has for itself: private
// keys, database clusters. The agent runs them as root, in the order of their names, once, when the
// machine becomes a box. Nothing of the user's runs before they have ended. Each makes only what is
// missing.
const FirstStartDir = "/usr/lib/agentbox/first-start"
