// Package rootfs holds a whole root file system as a tree in memory whose file contents stay where
// they are, applies container layers to it, and writes it as an erofs image that is a pure function
// of the tree. It runs no programs, knows no registries, and never writes a name from a layer to
// the host's file system: a layer can therefore not escape from it.
//
// Words: a tree has directories and inodes; an entry is a name of an inode in a directory, so a
// hard link is two entries of one inode. A layer is what is applied between two calls of NextLayer;
// it can remove what lower layers left.
//
// Its one caller is vmm/image: tree.go has what it edits a tree with, layer.go and whiteout.go
// apply a tar archive, read.go makes a tree of an image, write.go an image of a tree. The erofs
// library that writes knows neither hard links nor files that gVisor can map, so mend.go
// mends the file that it has written.
//
// Layers and images are hostile input: Limits bound what they may ask for, paths and links are
// followed inside of the tree only (walk.go), names, owners, times, devices and attributes are
// checked before they are taken. What cannot be is an error of code Corrupt; what is only too large
// is Invalid.
package rootfs
