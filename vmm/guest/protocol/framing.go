package protocol

// The stream between host and agent is one virtio-serial port (or one unix socket). It carries
// lives one after the other; each begins with Magic, a line of JSON (a Hello from the host, a Ready
// from the agent) and a newline, and goes on with one SSH connection until the next Magic.
//
// A life can end at any byte: the host's process was killed, or the guest was restored elsewhere.
// So the agent looks for Magic in all it reads: what comes before belongs to the old life, whose
// SSH connection then reads EOF. SSH traffic is encrypted under keys of this life, so nobody can
// make Magic appear in it; the clear-text banner and key exchange come from the host. The host in
// turn drops what it reads until a Ready with its own token.

// Magic begins a life.
const Magic = "\x00\xffagentbox life begins here\xff\x00\r\n"

// MaxLine bounds the JSON line after Magic.
const MaxLine = 256 << 10
