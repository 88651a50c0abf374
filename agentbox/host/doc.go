// Package host keeps the boxes of this machine: what exists, who has the lease, which machine runs
// where, and what is left to clean up. It reaches machines through vmm.Driver and supervisors only,
// and never through one driver in particular.
//
// What boxes are made of and governed by are rooms of their own below this package, none of which
// imports it. This package has their records and states and the operations that change them (up.go,
// create.go, life.go, pause.go, ...), which the Manager puts in order. What those need is beside
// it, and does without it: the table that finds boxes, the machines that begin and are followed,
// the maker that puts boxes together and takes them apart, the disk with their files.
//
// Words: a box's record is the file that says what it should be; everything it is follows from
// facts beside the record (a held lock, a saved directory), so that no crash can leave a lie
// behind. A life is one machine from its start to its end; a box has many, one after the other.
package host
