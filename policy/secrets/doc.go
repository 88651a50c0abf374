// Package secrets gets the values of secrets from where the user keeps them: the environment, a
// file, a command, the system's keyring. It keeps references only, and writes no value anywhere but
// into the keyring.
package secrets
