// Package secrets gets the values of secrets from where the user keeps them: the environment, a
// file, a command, the system's keyring. It keeps references only, and writes no value anywhere but
// into the keyring.
//
// A Reference says where a value is kept, and gets it. A Resolver has those of one box, in its
// supervisor's memory; it is the policy.Values that the gateway calls for each request that carries
// a secret. The command line and the daemon know references alone.
//
// No error and no log contains what was read: it may be the value, or a part of it. For the same
// reason, output and files that cannot be parsed are not quoted.
package secrets
