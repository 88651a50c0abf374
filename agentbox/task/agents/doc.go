// Package agents has the profiles of coding agents: which program one is, which hosts it talks to,
// which secrets it sends there, and which flags make it work without asking in a box that asks for
// it. It starts no agent and keeps no secret: what a profile asks for is granted by whoever runs
// it.
package agents
