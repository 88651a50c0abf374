// Package agent is the first process of every guest: it boots the machine, reaps, and serves the
// host over one byte stream, life after life. It makes no decision of policy and opens no port: the
// host is the only one it talks to.
//
// What it does to the machine itself (mounts, clock, entropy, cgroups) is behind the struct
// Machine, so that the rest runs in a test as an ordinary process. real.go fills it in for a
// virtual machine, gvisor.go for a gVisor sandbox.
//
// In order: boot.go (or gvisor.go) brings the machine up. agent.go reads the stream and divides it
// into lives. greeting.go answers each Hello and gives the machine its own identity. server.go
// serves the life's SSH connection: session.go and run.go are commands and terminals, forward.go
// ports, jobs.go with jobbuffer.go and jobchannel.go the commands that outlive their clients,
// requests.go the supervisor's own requests. Of these, box.go attaches and detaches, services.go
// runs services, quiesce.go with warmup.go prepares a template. reap.go starts and reaps every
// process.
//
// Invariants:
//
//   - In a virtual machine no user process runs between a Hello and the moment when random numbers,
//     clock and names are this life's own, so clones differ before they act. In gVisor random numbers
//     and clock are the host's.
//   - A command goes on when its life ends; only its client is gone.
//   - PID 1 outlives a bug: a goroutine that panics is logged and ends alone (goRecover).
//   - The agent stays outside of the box's cgroup, so it answers even when a box takes all memory
//     or processes.
//   - What a user of the box can write is never believed where it could hurt another box. What the
//     host sends is believed, since nobody else can write to the stream.
//
// A template is a machine at rest with this agent in it, so the agent does as much as possible
// before the template is saved: files that clones change exist already, with a block of their own,
// and the first programs have run. Measurements: docs/internals/measurements.md. The protocol:
// vmm/guest/protocol.
package agent
