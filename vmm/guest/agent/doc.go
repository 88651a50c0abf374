// Package agent is the first process of every guest: it boots the machine, reaps, and serves the
// host over one byte stream, life after life. It decides nothing about policy and opens no port:
// the host is the only one it talks to.
//
// What it does to the machine itself (mounts, clock, entropy, cgroups) is behind the struct
// Machine, so that all the rest runs in a test as an ordinary process.
package agent
