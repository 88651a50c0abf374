// Package contexts lets the members of a team enter what a machine works on or has left: it says who
// may (Allowed), answers them with digests (Owner) and asks another machine (Ask). It makes no
// snapshot and no box, and moves no bytes: what an answer names is fetched from peer to peer
// (mesh/exchange), which hands it to whom Owner.Granted says.
//
// Nobody may enter anything until a user allowed it, for a box, a task or all of a project, for some
// members or all. A member who was not allowed gets the same answer as for something that does not
// exist.
package contexts
