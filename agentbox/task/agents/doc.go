// Package agents has the profiles of coding agents: which program an agent is, which hosts it talks
// to, which secrets it sends there, and which flags make it work without questions in a box that it
// cannot harm. It starts no agent and keeps no secret: its caller, agentbox/host, grants what a
// profile asks for, after the user has approved it where that is needed.
//
// A Profile is one small YAML file, NAME.yaml, in one of three places, of which the first that has
// it counts: the user's directory, .agentbox/agents of the repository, and those that are built in
// (builtin/). Dirs finds profiles, Parse reads one.
//
// A repository's profile is untrusted: it is bounded, read without following a link out of the
// repository, may not name files of this machine (read), and counts only once a person has approved
// what it asks for. That is Asks, lines that say everything the profile means: a new field of
// Profile that has an effect must be in there.
//
// Profile.Command and Profile.PromptCommand return commands, Profile.Needs what is to be installed;
// rules are in the language of package policy.
package agents
