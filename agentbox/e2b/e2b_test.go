package e2b

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func TestTemplates(t *testing.T) {
	f, _, s := open(t)
	for body, want := range map[string]string{
		`{"templateID":"base"}`:                  "up /checkout ",
		`{"templateID":"/other"}`:                "up /other ",
		`{"templateID":"apt:bookworm"}`:          "up /checkout apt:bookworm",
		`{"templateID":"docker.io/library/n:1"}`: "up /checkout docker.io/library/n:1",
	} {
		f.asked = nil
		create(t, s, "mine", body)
		if !slices.Equal(f.asked, []string{want}) {
			t.Errorf("%s: %q", body, f.asked)
		}
	}
	f.asked = nil
	// What a program relies on, or what is asked in vain, is refused before anything is made.
	for _, body := range []string{
		`{"templateID":"base","network":{"rules":{}}}`, `{"templateID":"base","network":{"allowPublicTraffic":false}}`, `{"templateID":"base","network":{"denyOut":["192.0.2.1"],"allowOut":["192.0.2.2"]}}`,
		`{"templateID":"base","iam":{"tokens":{}}}`,
		`{"templateID":"base","mcp":{}}`, `{"templateID":"base","volumeMounts":[{}]}`, `{"templateID":"base","autoPauseMemory":false}`, `{`, `[]`,
	} {
		var made sandbox
		if status := rest(t, s, "POST", "/v2/sandboxes", "mine", body, &made); status != 400 || made.Message == "" || f.asked != nil {
			t.Errorf("%s: %d %+v %q", body, status, made, f.asked)
		}
	}
}

// What a program says of the network of a sandbox bounds its box.
func TestNetwork(t *testing.T) {
	for body, want := range map[string]string{
		`{}`: "", `{"network":{}}`: "", `{"network":{"allowOut":["example.com"]}}`: "", `{"allow_internet_access":true}`: "",
		`{"allow_internet_access":false}`:                                                            `{"preset":"offline"}`,
		`{"network":{"denyOut":["0.0.0.0/0"]}}`:                                                      `{"preset":"offline"}`,
		`{"network":{"denyOut":["192.0.2.0/24","2001:db8::1"]}}`:                                     `{"deny":["192.0.2.0/24:*","[2001:db8::1/128]:*"]}`,
		`{"network":{"denyOut":["0.0.0.0/0","192.0.2.1"],"allowOut":["*.example.com","192.0.2.2"]}}`: `{"allow":["*.example.com","192.0.2.2/32:*"]}`,
		`{"allow_internet_access":false,"network":{"allowOut":["example.com"]}}`:                     `{"allow":["example.com"]}`,
		`{"allow_internet_access":false,"network":{"allow_internet_access":true}}`:                   `{"preset":"offline"}`,
	} {
		var n newSandbox
		if err := json.Unmarshal([]byte(body), &n); err != nil {
			t.Fatal(err)
		}
		got, err := boundOf(n.Network, n.Internet)
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", body, got, err)
		}
	}
}

// An update replaces all that was said before, and one that cannot be said changes nothing.
func TestSetNetwork(t *testing.T) {
	f, _, s := open(t)
	sb := create(t, s, "mine", `{}`)
	f.asked = nil
	for _, test := range []struct {
		body   string
		status int
	}{
		{`{"allow_internet_access":false}`, 204}, {`{"denyOut":["192.0.2.1"],"allowOut":[]}`, 204}, {`{}`, 204}, {``, 204},
		{`{"rules":{}}`, 400}, {`{"egressProxy":{"address":"a:1"}}`, 400}, {`[]`, 400}, {`{`, 400},
	} {
		if status := rest(t, s, "PUT", "/sandboxes/"+sb.SandboxID+"/network", "mine", test.body, nil); status != test.status {
			t.Errorf("%s: %d", test.body, status)
		}
	}
	if want := []string{`bind {"preset":"offline"}`, `bind {"deny":["192.0.2.1/32:*"]}`, "bind ", "bind "}; !slices.Equal(f.asked, want) {
		t.Errorf("asked %q", f.asked)
	}
}

// A sandbox is there for the token that made it, and for no other.
func TestOwner(t *testing.T) {
	_, _, s := open(t)
	mine, theirs := create(t, s, "mine", `{}`), create(t, s, "theirs", `{}`)
	var all []struct{ SandboxID string }
	if rest(t, s, "GET", "/v2/sandboxes", "mine", "", &all); len(all) != 1 || all[0].SandboxID != mine.SandboxID {
		t.Errorf("a list of %+v", all)
	}
	for _, of := range []struct{ method, path string }{
		{"GET", ""}, {"DELETE", ""}, {"POST", "/pause"}, {"POST", "/timeout"}, {"POST", "/connect"}, {"POST", "/fork"}, {"GET", "/metrics"}, {"POST", "/snapshots"},
		{"PUT", "/network"},
	} {
		if status := rest(t, s, of.method, "/sandboxes/"+theirs.SandboxID+of.path, "mine", "{}", nil); status != 404 {
			t.Errorf("%s %s: %d", of.method, of.path, status)
		}
		if status := rest(t, s, of.method, "/sandboxes/"+theirs.SandboxID+of.path, "nobody", "{}", nil); status != 401 {
			t.Errorf("%s %s without a token: %d", of.method, of.path, status)
		}
	}
	crossed := sandbox{SandboxID: theirs.SandboxID, EnvdAccessToken: mine.EnvdAccessToken}
	if _, code := call1(t, s, crossed, "/process.Process/List", nil); code != connect.CodeUnauthenticated {
		t.Errorf("another sandbox by an access token: %v", code)
	}
	if _, code := call1(t, s, sandbox{SandboxID: mine.SandboxID, EnvdAccessToken: "mine"}, "/process.Process/List", nil); code != connect.CodeUnauthenticated {
		t.Errorf("an API key as an access token: %v", code)
	}
	if status := rest(t, s, "DELETE", "/sandboxes/"+mine.SandboxID, "mine", "", nil); status != 204 {
		t.Errorf("kill: %d", status)
	}
	if _, code := call1(t, s, mine, "/process.Process/List", nil); code != connect.CodeUnavailable {
		t.Errorf("a sandbox that was killed: %v", code)
	}
}

func TestStart(t *testing.T) {
	f, _, s := open(t)
	sb := create(t, s, "mine", `{}`)
	f.asked = nil
	req := sb.request(map[string]any{"process": map[string]any{"cmd": "/bin/bash", "args": []string{"-c", "x"}, "cwd": "sub"}, "stdin": false, "unknown": 1})
	req.Header().Set("Authorization", "Basic cm9vdDo=") // root
	stream, err := sb.client(s, "/process.Process/Start").CallServerStream(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for stream.Receive() {
		b, _ := json.Marshal((*stream.Msg())["event"])
		got = append(got, string(b))
	}
	if stream.Err() != nil || len(got) != 4 || !strings.HasPrefix(got[0], `{"start":{"pid":`) {
		t.Fatalf("%q, %v", got, stream.Err())
	}
	slices.Sort(got[1:3]) // the two outputs come in any order
	want := []string{`{"data":{"stderr":"ZXJy"}}`, `{"data":{"stdout":"b3V0/w=="}}`, `{"end":{"error":"exit status 3","exitCode":3,"exited":true,"status":"exit status 3"}}`}
	if !slices.Equal(got[1:], want) {
		t.Errorf("%q", got)
	}
	if want := []string{"/bin/bash -c x " + f.dir + "/sub root"}; !slices.Equal(f.asked, want) {
		t.Errorf("asked %q", f.asked)
	}
	for procedure, fields := range map[string]map[string]any{
		"SendInput":  {"process": map[string]any{"pid": 7}, "input": map[string]any{"stdin": "aGk="}},
		"SendSignal": {"process": map[string]any{"pid": 7}, "signal": "SIGNAL_SIGKILL"},
		"CloseStdin": {"process": map[string]any{"pid": 7}},
		"Update":     {"process": map[string]any{"pid": 7}, "pty": map[string]any{"size": map[string]any{"cols": 1, "rows": 1}}},
	} {
		if _, code := call1(t, s, sb, "/process.Process/"+procedure, fields); code != connect.CodeNotFound {
			t.Errorf("%s of no process: %v", procedure, code)
		}
	}
	if _, code := call1(t, s, sb, "/process.Process/SendSignal", map[string]any{"process": map[string]any{"pid": 7}, "signal": "SIGNAL_SIGSTOP"}); code != connect.CodeInvalidArgument {
		t.Errorf("another signal: %v", code)
	}
}

func TestFiles(t *testing.T) {
	f, _, s := open(t)
	sb := create(t, s, "mine", `{}`)
	const service = "/filesystem.Filesystem/"
	if err := os.WriteFile(filepath.Join(f.dir, "a"), []byte("hello"), 0o640); err != nil {
		t.Fatal(err)
	}
	got, _ := call1(t, s, sb, service+"Stat", map[string]any{"path": "a"})
	entry := got["entry"].(map[string]any)
	delete(entry, "modifiedTime")
	delete(entry, "owner")
	delete(entry, "group")
	b, _ := json.Marshal(entry)
	if want := `{"mode":416,"name":"a","path":"` + f.dir + `/a","permissions":"-rw-r-----","size":"5","type":"FILE_TYPE_FILE"}`; string(b) != want {
		t.Errorf("%s", b)
	}
	for _, one := range []struct {
		procedure string
		fields    map[string]any
		code      connect.Code
	}{
		{"Stat", map[string]any{"path": "nothing"}, connect.CodeNotFound},
		{"MakeDir", map[string]any{"path": "d/e"}, 0},
		{"MakeDir", map[string]any{"path": "d"}, connect.CodeAlreadyExists},
		{"MakeDir", map[string]any{"path": "a"}, connect.CodeInvalidArgument},
		{"Move", map[string]any{"source": "a", "destination": "d/new/a"}, 0},
		{"Move", map[string]any{"source": "a", "destination": "b"}, connect.CodeNotFound},
		{"ListDir", map[string]any{"path": "d/new/a"}, connect.CodeInvalidArgument},
		{"ListDir", map[string]any{"path": "d", "depth": 2}, 0},
		{"Stat", map[string]any{"path": "~"}, 0},
		{"Remove", map[string]any{"path": "d"}, 0},
		{"Remove", map[string]any{"path": "d"}, 0},
		{"ListDir", map[string]any{"path": "d"}, connect.CodeNotFound},
	} {
		if _, code := call1(t, s, sb, service+one.procedure, one.fields); code != one.code {
			t.Errorf("%s %v: %v", one.procedure, one.fields, code)
		}
	}
}

// Both forms of a message have the same content: a client that speaks the binary one does all the same.
func TestBinary(t *testing.T) {
	f, _, s := open(t)
	sb := create(t, s, "mine", `{}`)
	f.asked = nil
	no := false
	req := connect.NewRequest(&startRequest{Process: processConfig{Cmd: "/bin/bash", Args: []string{"-c", "x"}, Envs: map[string]string{"A": "b"}}, Stdin: &no})
	sb.sign(req.Header())
	started := connect.NewClient[startRequest, processResponse](http.DefaultClient, s.URL+"/process.Process/Start", connect.WithCodec(protobuf{}), connect.WithSendGzip())
	stream, err := started.CallServerStream(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs string
	var end *endEvent
	for stream.Receive() {
		if d := stream.Msg().Event.Data; d != nil {
			out, errs = out+string(d.Stdout), errs+string(d.Stderr)
		}
		end = stream.Msg().Event.End
	}
	if stream.Err() != nil || out != "out\xff" || errs != "err" || !reflect.DeepEqual(end, &endEvent{3, true, "exit status 3", "exit status 3"}) {
		t.Errorf("%q %q %+v, %v", out, errs, end, stream.Err())
	}
	if want := []string{"/bin/bash -c x " + f.dir + " " + me()}; !slices.Equal(f.asked, want) {
		t.Errorf("asked %q, not %q", f.asked, want)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "a"), []byte("hello"), 0o640); err != nil {
		t.Fatal(err)
	}
	stat := connect.NewRequest(&pathRequest{"a"})
	sb.sign(stat.Header())
	got, err := connect.NewClient[pathRequest, entryResponse](http.DefaultClient, s.URL+"/filesystem.Filesystem/Stat", connect.WithCodec(protobuf{})).CallUnary(t.Context(), stat)
	if err != nil || got.Msg.Entry.Size != 5 || got.Msg.Entry.Type != "FILE_TYPE_FILE" || got.Msg.Entry.Mode != 0o640 || time.Since(got.Msg.Entry.ModifiedTime) > time.Hour {
		t.Errorf("%+v, %v", got, err)
	}
}

// The bytes are those of E2B's definitions; what is zero may be written too.
func TestProtobuf(t *testing.T) {
	yes := true
	for _, c := range []struct {
		message any
		bytes   string
	}{
		{&startRequest{Process: processConfig{Cmd: "a", Args: []string{"b", "c"}, Envs: map[string]string{"k": "v"}, Cwd: "d"}, PTY: &pty{ptySize{80, 24}}, Stdin: &yes},
			"\x0a\x14\x0a\x01a\x12\x01b\x12\x01c\x1a\x06\x0a\x01k\x12\x01v\x22\x01d\x12\x06\x0a\x04\x08P\x10\x18\x20\x01"},
		{&signalRequest{processRequest{selector{300}}, "SIGNAL_SIGKILL"}, "\x0a\x03\x08\xac\x02\x10\x09"},
		{&inputRequest{processRequest{selector{1}}, input{PTY: []byte{0, 255}}}, "\x0a\x02\x08\x01\x12\x04\x12\x02\x00\xff"},
		{&processResponse{processEvent{End: &endEvent{-1, true, "s", ""}}}, "\x0a\x09\x1a\x07\x08\x01\x10\x01\x1a\x01s"},
		{&watchRequest{pathRequest{"p"}, true, false}, "\x0a\x01p\x10\x01"},
		{&watchResponse{Filesystem: &fileEvent{"n", "EVENT_TYPE_CHMOD", nil}}, "\x12\x05\x0a\x01n\x10\x05"},
		{&entryInfo{Type: "FILE_TYPE_SYMLINK", Size: 1 << 40, ModifiedTime: time.Unix(1, 2).UTC(), SymlinkTarget: "t"},
			"\x0a\x00\x10\x03\x1a\x00\x20\x80\x80\x80\x80\x80\x20\x28\x00\x32\x00\x3a\x00\x42\x00\x4a\x04\x08\x01\x10\x02\x52\x01t"},
	} {
		b, err := protobuf{}.Marshal(c.message)
		back := reflect.New(reflect.TypeOf(c.message).Elem()).Interface()
		if err == nil {
			err = protobuf{}.Unmarshal([]byte(c.bytes), back)
		}
		if err != nil || string(b) != c.bytes || !reflect.DeepEqual(back, c.message) {
			t.Errorf("%T: %q, %+v, %v", c.message, b, back, err)
		}
	}
}

// A URL is for one file, one direction and one sandbox, which it does not name.
func TestSignedURL(t *testing.T) {
	f, _, s := open(t)
	create(t, s, "theirs", `{}`)
	sb := create(t, s, "mine", `{}`)
	if err := os.WriteFile(filepath.Join(f.dir, "a"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	query := url.Values{"path": {"a"}}
	query.Set("signature", signature("GET", query, sb.EnvdAccessToken))
	get := func(q url.Values) int { return rest(t, s, "GET", "/files?"+q.Encode(), "", "", nil) }
	if status := get(query); status != 200 {
		t.Errorf("as it was signed: %d", status)
	}
	if status := rest(t, s, "POST", "/files?"+query.Encode(), "", "x", nil); status != 401 {
		t.Errorf("the other direction: %d", status)
	}
	for name, value := range map[string]string{"path": "b", "username": "root", "signature_expiration": "99999999999", "signature": "v1_x"} {
		other := url.Values{}
		for k, v := range query {
			other[k] = v
		}
		other.Set(name, value)
		if status := get(other); status != 401 {
			t.Errorf("with %s %s: %d", name, value, status)
		}
	}
	f.mu.Lock()
	f.removed = "mine"
	f.mu.Unlock()
	if status := get(query); status != 401 {
		t.Errorf("of a token that was removed: %d", status)
	}
	f.mu.Lock()
	f.removed = ""
	f.mu.Unlock()
	old := url.Values{"path": {"a"}, "signature_expiration": {"1"}}
	old.Set("signature", signature("GET", old, sb.EnvdAccessToken))
	if status := get(old); status != 401 {
		t.Errorf("an old one: %d", status)
	}
}

func TestHosts(t *testing.T) {
	_, f, _ := open(t)
	for host, want := range map[string]bool{
		"3000-0102030405ff.localhost": true, "3000-0102030405ff.localhost:7070": true, "49983-0102030405FF.Boxes.Example.com": true,
		"3000-0102030405ff.example.com": false, "3000-01.localhost": false, "0-0102030405ff.localhost": false, "70000-0102030405ff.localhost": false,
		"x-0102030405ff.localhost": false, "0102030405ff.localhost": false, "localhost": false, "": false, "3000-0102030405ff": false, "3000-0102030405ff.a.localhost": false,
	} {
		if f.OwnsHost(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
	for host, want := range map[string]string{
		"127.0.0.1:7070": "boxes.example.com:7070", "[::1]:1": "boxes.example.com:1", "localhost:7070": "boxes.example.com:7070",
		"api.boxes.example.com": "boxes.example.com", "evil.example": "boxes.example.com",
	} {
		if got := f.domain(&http.Request{Host: host}); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
}

// A server in a sandbox needs no token, but a sandbox, whose token is valid.
func TestPort(t *testing.T) {
	f, _, s := open(t)
	sb := create(t, s, "mine", `{}`)
	get := func(host string) (int, string) {
		r, _ := http.NewRequest("GET", s.URL+"/x", nil)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	host := "3000-" + sb.SandboxID + ".localhost"
	if status, body := get(host); status != 200 || body != host+" "+host {
		t.Errorf("%d %q", status, body)
	}
	if status, _ := get("3000-0102030405ff.localhost"); status != 502 {
		t.Errorf("no sandbox: %d", status)
	}
	if status, _ := get("49983-" + sb.SandboxID + ".localhost"); status != 404 && status != 401 {
		t.Errorf("the inside without a token: %d", status)
	}
	f.mu.Lock()
	f.boxes[0].Labels = map[string]string{labelKind: kindSandbox, labelOwner: "removed"}
	f.mu.Unlock()
	if status, _ := get(host); status != 502 {
		t.Errorf("of a token that was removed: %d", status)
	}
}

func TestEnds(t *testing.T) {
	f, _, s := open(t)
	gone, kept := create(t, s, "mine", `{"timeout":0}`), create(t, s, "mine", `{"timeout":0,"autoPause":true}`)
	ended := []string{<-f.ends, <-f.ends}
	if !slices.Contains(ended, gone.SandboxID) || !slices.Contains(ended, kept.SandboxID) || len(f.boxes) != 1 {
		t.Errorf("ended %q", ended)
	}
	if _, code := call1(t, s, gone, "/process.Process/List", nil); code != connect.CodeUnavailable {
		t.Errorf("an ended sandbox: %v", code)
	}
	if status := rest(t, s, "POST", "/sandboxes/"+kept.SandboxID+"/pause", "mine", "", nil); status != 409 {
		t.Errorf("pause of a paused one: %d", status)
	}
}

// The end of its time is written with the sandbox itself, so that its first command waits for no other
// write; and the end of a short one comes when its program has it.
func TestSandboxIsMadeWithItsEnd(t *testing.T) {
	f, face, s := open(t)
	f.meanwhile = func() {
		if all, err := face.running(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("ends meanwhile: %+v, %v", all, err)
		}
	}
	sb := create(t, s, "mine", `{"timeout":0}`)
	if ended := <-f.ends; ended != sb.SandboxID {
		t.Errorf("%s ended", ended)
	}
	f.meanwhile = nil
	create(t, s, "mine", `{"timeout":600}`)
	f.mu.Lock()
	defer f.mu.Unlock()
	if end := time.Until(endOf(f.boxes[0])); slices.Contains(f.asked, "label") || end > 10*time.Minute {
		t.Errorf("asked %q, ends in %s", f.asked, end)
	}
}

// changes are what the fake box tells of a directory. It is not to be trusted.
const changes = "{}\n" + `{"name":"new","kind":"create"}` + "\n" + `{"name":"old","kind":"rename"}` + "\n" + `{"name":"x","kind":"of a later build"}` + "\n" + `{"name":"../x","kind":"write"}` + "\n"

func TestWatch(t *testing.T) {
	f, _, s := open(t)
	if err := os.WriteFile(filepath.Join(f.dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sb := create(t, s, "mine", `{}`)
	stream, err := sb.client(s, "/filesystem.Filesystem/WatchDir").CallServerStream(t.Context(), sb.request(map[string]any{"path": f.dir, "includeEntry": true}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for stream.Receive() {
		got = append(got, "start")
		if e, ok := (*stream.Msg())["filesystem"].(map[string]any); ok {
			about, _ := e["entry"].(map[string]any)
			got[len(got)-1] = fmt.Sprint(e["type"], e["name"], about["path"])
		}
	}
	want := []string{"start", "EVENT_TYPE_CREATEnew" + filepath.Join(f.dir, "new"), "EVENT_TYPE_RENAMEold<nil>"}
	if !slices.Equal(got, want) || stream.Err() == nil || !strings.Contains(stream.Err().Error(), "another way than agreed") {
		t.Errorf("%q, %v", got, stream.Err())
	}
}

func TestReadMetadata(t *testing.T) {
	got, err := readMetadata("a%2520b=c%2526d%253D%25C3%25A9&e=")
	if err != nil || len(got) != 2 || got["a b"] != "c&d=é" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := readMetadata("a=%25zz"); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Error(err)
	}
}

// What comes from outside is refused or read, and nothing else.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"process":{"pid":1},"signal":9}`, `{"process":{"cmd":"x","envs":{"A":"b"}},"pty":{"size":{"cols":1}}}`, "a=b&c=%25", "root:x:0:0:root:/root:/bin/sh", "Basic cm9vdDo=", `form-data; name="file"; filename="a/b"`, "3000-0102030405ff.localhost:1"} {
		f.Add([]byte(seed))
	}
	_, face, _ := open(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p processRequest
		var st startRequest
		if codec("json").Unmarshal(b, &p) == nil {
			_, _ = p.job()
		}
		if codec("json").Unmarshal(b, &st) == nil {
			_, _ = specOf(&st, api.Connection{Dir: "/workspace"}, "")
		}
		for _, v := range []any{&startRequest{}, &signalRequest{}, &inputRequest{}, &resizeRequest{}, &watchRequest{}, &moveRequest{}} {
			if (protobuf{}).Unmarshal(b, v) != nil {
				continue
			}
			if m, err := newMessage(v); err != nil || proto.Unmarshal(b, m) != nil {
				t.Errorf("%q of %T: %v", b, v, err)
			}
		}
		_, _ = readMetadata(string(b))
		if name := nameIn(string(b), "0"); strings.ContainsAny(name, ":\n") {
			t.Errorf("%q", name)
		}
		if a, err := accountOf(string(b), "root"); err == nil && (a.uid < 0 || a.gid < 0 || !filepath.IsAbs(a.home)) {
			t.Errorf("%+v", a)
		}
		_ = userOf(http.Header{"Authorization": {string(b)}})
		_ = partName(string(b))
		if id, port, ok := face.splitHost(string(b)); ok && (len(id) != 12 || port < 1 || port > 65535) {
			t.Errorf("%q: %q %d", b, id, port)
		}
	})
}
