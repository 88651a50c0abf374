//go:build !amd64

package container

var legacy []uint32
