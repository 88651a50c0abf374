// Package identity says what makes a box here behave like a box elsewhere: a small signed Document
// with the project and commit, the image, what setup made, lockfiles, kernel, isolation, policy and
// snapshot of a box or task. It makes no box and fetches nothing: what a Document names is found by
// digest.
//
// Diff compares two documents. A Report is what a machine says of itself with the script that
// Script returns; Report.Diff compares one of CI with one of a box. Both list what matters most
// first.
//
// A Document is signed with the key that is a peer of the mesh. What Parse returns is somebody's
// claim until Verify has succeeded.
package identity
