// Package host keeps the boxes of this machine: it creates, wakes, pauses, forks, resets and
// removes them, and cleans up after a crash. It reaches machines only through vmm.Driver and their
// supervisors, never through one particular driver.
//
// The packages below this one prepare what boxes are made of and decide what they may do. None of
// them imports host. This package keeps the boxes' records and states; Manager orders the
// operations on them (up.go, create.go, life.go, pause.go and so on). Helpers do the rest and know
// nothing of Manager: table finds boxes, machines starts and follows their machines, maker
// assembles boxes and takes them apart, disk keeps their files.
//
// A record is the file that says what a box should be. What the box is follows from facts beside
// the record: a lock that is held, a saved directory. So a crash cannot leave a wrong state behind.
// A life is one machine from its start to its end; a box has many, one after the other.
package host
