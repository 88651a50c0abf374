// Package rootfs holds a whole root file system as a tree in memory whose file contents stay where
// they are, applies container layers to it, and writes it as an erofs image that is a pure function
// of the tree. It runs no programs, knows no registries, and never writes a name from a layer to
// the host's file system: a layer can therefore not escape from it.
//
// Words: a tree has directories and inodes; an entry is a name of an inode in a directory, so a
// hard link is two entries of one inode. A layer is what is applied between two calls of NextLayer;
// it can remove what lower layers left.
package rootfs
