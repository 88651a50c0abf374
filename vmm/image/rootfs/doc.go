// Package rootfs holds a root file system as a tree in memory, applies container layers to it, and
// writes it as an erofs image. It runs no programs, knows no registries, and never creates a file
// of the host under a name from a layer, so a layer cannot escape. The contents of files stay where
// they are until the image is written. The image is a pure function of the tree.
//
// Words: a tree has directories and inodes. An entry is a name of an inode in a directory, so a
// hard link is two entries of one inode. A layer is what is applied between two calls of NextLayer;
// it can remove what lower layers left.
//
// Its one caller is vmm/image. It edits a tree with the methods in tree.go; layer.go and
// whiteout.go apply a tar archive, read.go makes a tree from an image, write.go an image from a
// tree. The erofs library can write neither hard links nor small files that gVisor can map; mend.go
// adds both.
//
// Layers and images are hostile input. Limits bound what they may ask for. Paths and links are
// followed within the tree only (walk.go). Names, owners, times, devices and attributes are checked
// before they are taken. Impossible input is an error of code Corrupt, input that is only too large
// of code Invalid.
package rootfs
