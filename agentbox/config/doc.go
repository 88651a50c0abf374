// Package config finds and reads what a repository says its box should be: agentbox.yaml, a
// devcontainer.json, or what the files of the repository let us guess. It only reads: it resolves
// no image, opens no file the configuration names and decides nothing about what a repository may
// ask for.
package config
