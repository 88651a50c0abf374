package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
	"agentbox/policy"
)

// networkLimit bounds one sample. An emulated machine moves the bytes in a few seconds.
const networkLimit = 2 * time.Minute

// netTest is something that a program in a guest does over TCP with a server on this machine. The
// program itself takes the time, so that starting a process does not count.
type netTest struct {
	name   string
	what   string // as in netScript
	amount int64
}

// Sizes for which an emulated machine needs about a second.
const (
	netBytes    = 64 << 20
	netConnects = 25
)

// netTests are the properties of a network that programs notice: its throughput in each direction,
// and how long it takes to connect.
var netTests = []netTest{
	{"throughput-down", "down", netBytes},
	{"throughput-up", "up", netBytes},
	{"connect", "connect", netConnects},
}

// netScript is in Perl, which every image of Debian has without a package. It prints milliseconds:
// the time to move all bytes on one connection, or the median of that many connections one after
// the other. It must not contain a single quote, because it is quoted by these for the guest's
// shell.
const netScript = `use strict; use Socket; use Time::HiRes qw(time);
my ($what, $host, $port, $amount) = @ARGV;
my $address = inet_aton($host) or die "$host has no address\n";
my $to = pack_sockaddr_in($port, $address);
my $buffer = "\0" x 262144;
sub dial {
	socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!\n";
	my $start = time;
	connect($s, $to) or die "connect: $!\n";
	return ($s, time - $start);
}
my $took;
if ($what eq "connect") {
	my @all;
	for (1 .. $amount) {
		my ($s, $t) = dial();
		push @all, $t;
		close $s;
	}
	@all = sort { $a <=> $b } @all;
	$took = $all[$#all / 2];
} else {
	my ($s) = dial();
	my $line = "$what $amount\n";
	syswrite($s, $line) == length $line or die "ask: $!\n";
	my ($start, $left) = (time, $amount);
	while ($left > 0) {
		my $most = $left < 262144 ? $left : 262144;
		my $n = $what eq "up" ? syswrite($s, $buffer, $most) : sysread($s, $buffer, $most);
		die "cut off with $left bytes left: $!\n" unless $n;
		$left -= $n;
	}
	if ($what eq "up") { sysread($s, $buffer, 1) or die "the server did not get everything: $!\n" }
	$took = time - $start;
}
printf "%.3f\n", $took * 1000;
`

// netClient runs tests somewhere, against a server that it reaches as host and port: a box by the
// policy's name for this machine, a peer by an address.
type netClient interface {
	// perl runs a script with arguments and returns its output.
	perl(ctx context.Context, script string, args ...string) ([]byte, error)
	server() (host string, port int)
}

// scenario returns the scenario of the test on a client.
func (e netTest) scenario(name string, c netClient) bench.Scenario {
	measure := func(ctx context.Context) (float64, error) { return e.run(ctx, c) }
	return bench.Scenario{
		Name: name, Unit: bench.Milliseconds, Ceiling: bench.InMilliseconds(networkLimit), Measure: measure,
		// The first run is slower, because code is loaded and (under emulation) translated.
		Setup: func(ctx context.Context) error {
			_, err := measure(ctx)
			return err
		},
	}
}

// run takes one sample.
func (e netTest) run(ctx context.Context, c netClient) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, networkLimit, fmt.Errorf("the limit is %s", networkLimit))
	defer cancel()
	host, port := c.server()
	out, err := c.perl(ctx, netScript, e.what, host, strconv.Itoa(port), strconv.FormatInt(e.amount, 10))
	if err != nil {
		return 0, err
	}
	ms, err := strconv.ParseFloat(string(bytes.TrimSpace(out)), 64)
	if err != nil || ms < 0 {
		return 0, fmt.Errorf("%s: the program in the guest said %q, not milliseconds", e.name, out)
	}
	return ms, nil
}

// boxClient runs tests in a box along the way of its user's programs: the name, the policy, the
// gateway.
type boxClient struct {
	installation *bench.Installation
	name         string
	at           *netServer
}

func (c boxClient) server() (string, int) { return policy.HostName, c.at.port() }

// perl runs a command in the box. The script takes the time itself, so entering does not count.
func (c boxClient) perl(ctx context.Context, script string, args ...string) ([]byte, error) {
	out, _, err := c.installation.Program.Run(ctx, c.installation.Home.Dir, append([]string{"exec", c.name, "--", "perl", "-e", script}, args...)...)
	return out, err
}

// networkScenarios returns the scenarios of the network of one kind of box, each alternating with the same
// test without agentbox: on QEMU's own user network, or on runsc's own. It makes the machines for
// both. close ends what the Lab does not end.
func networkScenarios(ctx context.Context, l *bench.Lab) (all []bench.Scenario, close func() error, err error) {
	local, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := newNetServer(local)
	ends := []func() error{server.close}
	close = func() error {
		var errs []error
		for i := len(ends) - 1; i >= 0; i-- {
			errs = append(errs, ends[i]())
		}
		return errors.Join(errs...)
	}
	box, err := networkBox(ctx, l, server)
	if err != nil {
		return nil, nil, errors.Join(err, close())
	}
	peer, end, err := networkPeer(ctx, l, box, server)
	if end != nil {
		ends = append(ends, end)
	}
	// Without a peer, for example because it needs root, our own scenarios have no baseline.
	name := peerName(box.Isolation)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, errors.Join(err, close())
		}
		l.Say.Note(name + " is left out: " + err.Error())
	}
	ours := boxClient{installation: l.Plain, name: networkName, at: server}
	for _, e := range netTests {
		s := e.scenario("network/"+e.name, ours)
		s.Isolation, s.Accel = box.Isolation, box.Accel
		if err == nil {
			s.Baseline = name + "-" + e.name
			all = append(all, e.scenario(s.Baseline, peer))
		}
		all = append(all, s)
	}
	return all, close, nil
}

// networkName is the name of the box and of its repository.
const networkName = "network"

// peerName returns the scenario with which a kind of box is compared.
func peerName(kind agentbox.Isolation) string {
	if kind == agentbox.GVisor {
		return "peer/runsc-net"
	}
	return "peer/qemu-user"
}

// networkPeer makes the machine with which a kind of box is compared. The returned func ends it,
// and may be non-nil even with an error.
func networkPeer(ctx context.Context, l *bench.Lab, box agentbox.Box, server *netServer) (netClient, func() error, error) {
	end := l.Say.Begin(peerName(box.Isolation), "")
	defer end("")
	if box.Isolation == agentbox.GVisor {
		return newRunscNet(ctx, l, box.Image)
	}
	return newQEMUUser(ctx, l, box, server)
}

// networkBox makes the box. In addition to the default, its policy allows the server and nothing
// else.
func networkBox(ctx context.Context, l *bench.Lab, server *netServer) (agentbox.Box, error) {
	repo, err := l.Repo(ctx, networkName, bench.SmallRepository)
	if err != nil {
		return agentbox.Box{}, err
	}
	to := fmt.Sprintf("%s:%d", policy.HostName, server.port())
	if _, err := l.Plain.Do(ctx, repo, "policy", "allow", "--private", to); err != nil {
		return agentbox.Box{}, err
	}
	end := l.Say.Begin("box", "image, kernel, template")
	ctx, cancel := context.WithTimeoutCause(ctx, bench.WarmUpTime, fmt.Errorf("the limit is %s", bench.WarmUpTime))
	defer cancel()
	if _, _, err := l.Plain.Program.Run(ctx, repo, l.Plain.Up(networkName, "--detach")...); err != nil {
		return agentbox.Box{}, err
	}
	box, err := l.Plain.Show(ctx, networkName)
	end(string(box.Isolation))
	return box, err
}
