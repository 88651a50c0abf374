package image

import (
	"errors"
	"path"

	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image/rootfs"
)

// perBox are files that packages make when they are installed, and that no two boxes may share. An
// image does not have them, but a shell script that makes them when a box starts. It runs as root,
// once in the life of a machine (protocol.FirstStartDir).
type perBox struct {
	name   string   // of the script; scripts run in the order of their names
	needs  []string // programs of the script: an image without one of them does not get it
	files  []string // are removed, with the links beside them that lead to them
	empty  []string // directories that are emptied, in an image that was just installed
	script string
}

// keys are private keys, removed from every image: neither the store nor a team has one.
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

// clusters are databases that packages make. The scripts do what Debian's packages do.
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

// PerBoxFiles returns the absolute paths of files that each box makes for itself. Others must not
// get them.
func PerBoxFiles() []string {
	list := []string{"/etc/machine-id", "/var/lib/dbus/machine-id"}
	for _, p := range keys {
		list = append(list, p.files...)
	}
	return list
}

// PerBoxDirectories returns, for each database that a box makes for itself, its directories, which
// are of use only together.
func PerBoxDirectories() [][]string {
	var list [][]string
	for _, p := range clusters {
		list = append(list, p.empty)
	}
	return list
}

func (b *build) removeKeys() error {
	var errs []error
	for _, p := range keys {
		for _, file := range p.files {
			errs = append(errs, b.removeLinked(file))
		}
	}
	return errors.Join(errs...)
}

func (b *build) makeKeys() error {
	var errs []error
	for _, p := range keys {
		errs = append(errs, b.firstStart(p))
	}
	return errors.Join(errs...)
}

// ownClusters removes the databases from an image that was just installed, and adds the scripts
// that make them. In other images they may be somebody's work.
func (b *build) ownClusters() error {
	var errs []error
	for _, p := range clusters {
		had := false
		for _, dir := range p.empty {
			for name := range b.entriesOf(dir) {
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

// firstStart adds a script, if the image has the programs that it needs.
func (b *build) firstStart(p perBox) error {
	for _, needed := range p.needs {
		if b.tree.Lookup(needed, true) == nil {
			return nil
		}
	}
	ino := &rootfs.Inode{Mode: rootfs.TypeRegular | 0o755, ModTime: epoch}
	return b.put(path.Join(protocol.FirstStartDir, p.name), ino, []byte("#!/bin/sh -e\n"+p.script))
}

// removeLinked removes a file and the links beside it that lead to it, such as those in
// /etc/ssl/certs whose names are hashes of certificates.
func (b *build) removeLinked(file string) error {
	dir, last := path.Split(file)
	var errs []error
	for name, ino := range b.entriesOf(dir) {
		if name == last || ino.Target == last {
			errs = append(errs, b.tree.Remove(path.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}

// entriesOf returns the entries of a directory by name, none if it is missing.
func (b *build) entriesOf(dir string) map[string]*rootfs.Inode {
	in := map[string]*rootfs.Inode{}
	if ino := b.tree.Lookup(dir, true); ino != nil {
		for _, name := range ino.Names() {
			in[name] = ino.Child(name)
		}
	}
	return in
}
