// Package agents has the profiles of coding agents: which program one is, which hosts it talks to,
// which secrets it sends there, and which flags make it work without asking in a box that asks for
// it. It starts no agent and keeps no secret: what a profile asks for is granted by the caller,
// agentbox/host, after the user approved it where that is needed.
//
// A Profile is one small YAML file, NAME.yaml, looked for in three places, the first of which
// counts: the user's directory, .agentbox/agents of the repository, and those that are built in
// (builtin/). Dirs finds them, Parse reads one.
//
// A profile of a repository is data of a stranger's: it is bounded, read without following a link
// out of the repository, may not name files of this machine (read), and counts only when a
// person has approved what it asks for. What is approved is Asks, lines that say everything the
// profile means: a field that is added to Profile and has an effect must be said there.
//
// Profile.Run and Profile.Work give commands, Profile.Needs what is to be installed; rules are in
// the language of package policy.
package agents
