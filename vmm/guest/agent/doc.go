// Package agent is the first process of every guest: it boots the machine, reaps, and serves the
// host over one byte stream, life after life. It decides nothing about policy and opens no port:
// the host is the only one it talks to.
//
// What it does to the machine itself (mounts, clock, entropy, cgroups) is behind the struct
// Machine, so that all the rest runs in a test as an ordinary process. real.go fills it in for a
// virtual machine, gvisor.go for a gVisor sandbox.
//
// The order of things: boot.go (or gvisor.go) brings the machine up; agent.go reads the stream and
// cuts it into lives; birth.go makes this machine another one than its twins at each Hello;
// server.go serves the life's SSH connection. On that, session.go and run.go are commands and
// terminals, forward.go ports, jobs.go with jobbuffer.go and jobchannel.go the commands that
// outlive their clients, requests.go the supervisor's own requests: box.go attaches and detaches,
// services.go runs services, quiesce.go with warmup.go makes a template of the machine. reap.go
// starts and reaps every process.
//
// What always holds:
//
//   - In a virtual machine no user process runs between a Hello and the moment when random numbers,
//     clock and names are this life's own: twins part before they act. In gVisor random numbers and
//     clock are the host's.
//   - A command goes on when its life ends; only its client is gone.
//   - PID 1 outlives a bug: a goroutine that panics is logged and ends alone (goDo).
//   - The agent stays outside of the box's cgroup, so a box that takes all memory or processes
//     still answers.
//   - What a user of the box can write is never believed where it could hurt another box; what the
//     host sends is believed, since nobody else can write to the stream.
//
// A template is a machine at rest with this agent in it, so much here is about doing in the
// template what every clone would do otherwise: files that clones change are there already, with a
// block of their own; programs that come first have run. Figures and what was tried in vain:
// docs/internals/measurements.md. The words of the conversation: vmm/guest/protocol.
package agent
