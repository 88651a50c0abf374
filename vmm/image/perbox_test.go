package image

import (
	"strings"
	"testing"

	"agentbox/vmm/image/rootfs"
)

func grown(t *testing.T, files map[string]string) *build {
	t.Helper()
	b := &build{tree: rootfs.New(rootfs.DefaultLimits, epoch)}
	for name, text := range files {
		ino := &rootfs.Inode{Mode: rootfs.TypeRegular | 0o600, ModTime: epoch}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			ino, text = &rootfs.Inode{Mode: rootfs.TypeSymlink | 0o777, Target: target, ModTime: epoch}, ""
		}
		if err := b.put(name, ino, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func has(b *build, name string) bool { return b.tree.Lookup(name, false) != nil }

func TestImagesHaveNoPrivateKeys(t *testing.T) {
	b := grown(t, map[string]string{
		"usr/sbin/make-ssl-cert": "", "etc/ssl/private/ssl-cert-snakeoil.key": "k", "etc/ssl/certs/ssl-cert-snakeoil.pem": "c",
		"etc/ssl/certs/1234.0": "-> ssl-cert-snakeoil.pem", "etc/ssl/certs/5678.0": "-> public.pem",
		"usr/sbin/sshd": "", "usr/bin/ssh-keygen": "", "etc/ssh/ssh_host_rsa_key": "k", "etc/ssh/ssh_host_rsa_key.pub": "p", "etc/ssh/sshd_config": "",
	})
	if err := b.prepare(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/ssl/private/ssl-cert-snakeoil.key", "etc/ssl/certs/ssl-cert-snakeoil.pem", "etc/ssl/certs/1234.0", "etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_rsa_key.pub"} {
		if has(b, name) {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range []string{"etc/ssl/certs/5678.0", "etc/ssh/sshd_config"} {
		if !has(b, name) {
			t.Errorf("%s is gone", name)
		}
	}
	for _, name := range []string{"10-ssl-cert", "10-ssh"} {
		if ino := b.tree.Lookup("usr/lib/agentbox/first-start/"+name, false); ino == nil || ino.Mode != rootfs.TypeRegular|0o755 {
			t.Errorf("%s is %+v: no box makes what was taken away", name, ino)
		}
	}
}

func TestFirstStartMatchesImage(t *testing.T) {
	b := grown(t, map[string]string{"usr/sbin/sshd": "", "etc/passwd": ""})
	if err := b.prepare(); err != nil {
		t.Fatal(err)
	}
	if has(b, "usr/lib/agentbox") {
		t.Error("an image without ssh-keygen calls it")
	}
}

func TestOnlyNewDatabasesAreRemoved(t *testing.T) {
	files := map[string]string{
		"usr/bin/pg_createcluster": "", "etc/postgresql/15/main/postgresql.conf": "", "var/lib/postgresql/15/main/PG_VERSION": "15",
		"usr/bin/mariadb-install-db": "",
	}
	b := grown(t, files)
	if err := b.ownClusters(); err != nil {
		t.Fatal(err)
	}
	if has(b, "etc/postgresql/15") || has(b, "var/lib/postgresql/15") || !has(b, "var/lib/postgresql") {
		t.Error("the cluster is there, or the directory of clusters is not")
	}
	if !has(b, "usr/lib/agentbox/first-start/20-postgresql") || has(b, "usr/lib/agentbox/first-start/20-mariadb") {
		t.Error("boxes make another database than the one that was taken away")
	}
	b = grown(t, files)
	if err := b.prepare(); err != nil {
		t.Fatal(err)
	}
	if !has(b, "var/lib/postgresql/15/main/PG_VERSION") {
		t.Error("the work of an image's author is taken away")
	}
}
