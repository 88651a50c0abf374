package image

import (
	"errors"
	"path"

	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image/rootfs"
)

// perBox is what scripts of packages make when they are installed, and what no two boxes may have
// in common: an image is without it and has a program that makes it when a box starts. The programs
// are shell scripts that run as root, once in the life of a machine (protocol.FirstStartDir).
type perBox struct {
	name   string   // of the program, which says when it runs too
	needs  []string // what it calls: it is put where the image has all of it
	files  []string // taken away, with the links beside them that lead to them
	empty  []string // directories that are emptied, where the image was just installed
	script string
}

// keys are private keys: of no image, of whatever origin, so that neither the store nor a team ever
// has one.
var keys = []perBox{
	{
		name: "10-ssl-cert", needs: []string{"/usr/sbin/make-ssl-cert"},
		files:  []string{"/etc/ssl/private/ssl-cert-snakeoil.key", "/etc/ssl/certs/ssl-cert-snakeoil.pem"},
		script: "make-ssl-cert --no-overwrite generate-default-snakeoil\n",
	},
	{
		name: "10-ssh", needs: []string{"/usr/sbin/sshd", "/usr/bin/ssh-keygen"},
		files: []string{
			"/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_ed25519_key.pub", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ecdsa_key.pub",
			"/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_rsa_key.pub", "/etc/ssh/ssh_host_dsa_key", "/etc/ssh/ssh_host_dsa_key.pub",
		},
		script: `for kind in ed25519 ecdsa rsa; do
	key=/etc/ssh/ssh_host_${kind}_key
	[ -e $key ] || ssh-keygen -q -t $kind -N '' -f $key
done
`,
	},
}

// clusters are the databases that packages of servers make. Their programs do what Debian's
// packages do.
var clusters = []perBox{
	{
		name: "20-postgresql", needs: []string{"/usr/bin/pg_createcluster"}, empty: []string{"/etc/postgresql", "/var/lib/postgresql"},
		script: `for server in /usr/lib/postgresql/*/bin/postgres; do
	version=${server%/bin/postgres}
	version=${version##*/}
	[ -e /etc/postgresql/$version ] || pg_createcluster $version main -- --no-sync
done
`,
	},
	{
		name: "20-mariadb", needs: []string{"/usr/bin/mariadb-install-db"}, empty: []string{"/var/lib/mysql"},
		script: `if [ ! -e /var/lib/mysql/mysql ]; then
	mariadb-install-db --rpm --cross-bootstrap --user=mysql --disable-log-bin --skip-test-db
fi
`,
	},
}

// OwnFiles are those that each box makes for itself: what is taken out of a box to be used in
// others leaves them behind. Absolute paths in a box.
func OwnFiles() []string {
	list := []string{"/etc/machine-id", "/var/lib/dbus/machine-id"}
	for _, p := range keys {
		list = append(list, p.files...)
	}
	return list
}

// OwnDirectories are those of each database that a box makes for itself: a part of one is no use.
// Of each list either all are used or none.
func OwnDirectories() [][]string {
	var list [][]string
	for _, p := range clusters {
		list = append(list, p.empty)
	}
	return list
}

// removeKeys takes private keys out of the tree.
func (b *build) removeKeys() error {
	var errs []error
	for _, p := range keys {
		for _, file := range p.files {
			errs = append(errs, b.removeLinked(file))
		}
	}
	return errors.Join(errs...)
}

// makeKeys has boxes make the keys that their packages would have made.
func (b *build) makeKeys() error {
	var errs []error
	for _, p := range keys {
		errs = append(errs, b.firstStart(p))
	}
	return errors.Join(errs...)
}

// ownClusters takes the databases out of an image that was just installed, and has boxes make them.
// In any other they may be somebody's work.
func (b *build) ownClusters() error {
	var errs []error
	for _, p := range clusters {
		had := false
		for _, dir := range p.empty {
			for name := range b.within(dir) {
				had = true
				errs = append(errs, b.tree.Remove(path.Join(dir, name)))
			}
		}
		if had {
			errs = append(errs, b.firstStart(p))
		}
	}
	return errors.Join(errs...)
}

// firstStart puts a program where boxes run it, if the image has what it calls. An image without it
// never makes the files either.
func (b *build) firstStart(p perBox) error {
	for _, needed := range p.needs {
		// Keys are taken out of every image; what makes new ones goes only where it can run.
		if b.tree.Lookup(needed, true) == nil {
			return nil
		}
	}
	ino := &rootfs.Inode{Mode: rootfs.TypeRegular | 0o755, ModTime: epoch}
	return b.put(path.Join(protocol.FirstStartDir, p.name), ino, []byte("#!/bin/sh -e\n"+p.script))
}

// removeLinked removes a file and the links beside it that lead to it. /etc/ssl/certs has links to
// certificates by their hash, which would lead nowhere.
func (b *build) removeLinked(file string) error {
	dir, last := path.Split(file)
	var errs []error
	for name, ino := range b.within(dir) {
		if name == last || ino.Target == last {
			errs = append(errs, b.tree.Remove(path.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}

// within gives what is in a directory of the tree, nothing where there is none.
func (b *build) within(dir string) map[string]*rootfs.Inode {
	in := map[string]*rootfs.Inode{}
	if ino := b.tree.Lookup(dir, true); ino != nil {
		for _, name := range ino.Names() {
			in[name] = ino.Child(name)
		}
	}
	return in
}
