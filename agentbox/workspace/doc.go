// Package workspace stages a repository as it is now on the host into a directory tree a driver
// makes its disk from, and ties the box back to the checkout with a git remote. It knows nothing of
// machines, and it never changes the user's working tree, index or refs.
package workspace
