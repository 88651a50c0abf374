package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"agentbox/agentbox"
)

// browser is a Chromium without a screen, spoken to by the DevTools protocol.
type browser struct {
	cmd     *exec.Cmd
	profile string
	conn    *websocket.Conn
	number  int
}

// startBrowser starts one with a new profile.
func startBrowser(ctx context.Context) (*browser, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Missing, "no chromium on this machine").WithHint("apt-get install chromium")
	}
	b := &browser{}
	if b.profile, err = os.MkdirTemp("", "lab-browser-"); err != nil {
		return nil, err
	}
	b.cmd = exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--user-data-dir="+b.profile)
	said, err := b.cmd.StderrPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		b.close()
		return nil, err
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "DevTools listening on "); ok {
			go func() { // until it ends
				for lines.Scan() {
				}
			}()
			b.conn, _, err = websocket.Dial(ctx, address, nil)
			if err == nil {
				b.conn.SetReadLimit(64 << 20)
			}
			return b, err
		}
	}
	b.close()
	return nil, fmt.Errorf("chromium does not say where it listens")
}

func (b *browser) close() {
	if b.conn != nil {
		b.conn.CloseNow()
	}
	if b.cmd != nil && b.cmd.Process != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
	}
	os.RemoveAll(b.profile)
}

// call calls a method, in the tab of a session or, without one, in the browser.
func (b *browser) call(ctx context.Context, session, method string, params any, result any) error {
	b.number++
	id := b.number
	request := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		request["sessionId"] = session
	}
	if err := wsjson.Write(ctx, b.conn, request); err != nil {
		return err
	}
	for {
		var m struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		switch err := wsjson.Read(ctx, b.conn, &m); {
		case err != nil:
			return err
		case m.ID != id: // an event
			continue
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	}
}

// watchList resolves, in the page, when its list is painted.
const watchList = `window.labListed = new Promise((done) => {
	const look = () => document.querySelectorAll("main li a").length > 100 ? requestAnimationFrame(() => setTimeout(() => done(performance.now()))) : requestAnimationFrame(look);
	look();
});`

// load opens an address in a new tab, and returns the milliseconds until the first paint and until the
// list is there.
func (b *browser) load(ctx context.Context, address string) (painted, listed float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	type params = map[string]any
	var tab struct{ TargetID, SessionID string }
	if err := b.call(ctx, "", "Target.createTarget", params{"url": "about:blank"}, &tab); err != nil {
		return 0, 0, err
	}
	defer func() { _ = b.call(ctx, "", "Target.closeTarget", params{"targetId": tab.TargetID}, nil) }()
	if err := b.call(ctx, "", "Target.attachToTarget", params{"targetId": tab.TargetID, "flatten": true}, &tab); err != nil {
		return 0, 0, err
	}
	var value struct{ Result struct{ Value []float64 } }
	for _, step := range []struct {
		method string
		params params
		result any
	}{
		{"Page.enable", nil, nil},
		{"Page.addScriptToEvaluateOnNewDocument", params{"source": watchList}, nil},
		{"Page.navigate", params{"url": address}, nil},
		{"Runtime.evaluate", params{
			"expression":   `labListed.then((t) => [performance.getEntriesByName("first-contentful-paint")[0].startTime, t])`,
			"awaitPromise": true, "returnByValue": true,
		}, &value},
	} {
		if err := b.call(ctx, tab.SessionID, step.method, step.params, step.result); err != nil {
			return 0, 0, err
		}
	}
	if len(value.Result.Value) != 2 {
		return 0, 0, fmt.Errorf("%s was not painted", address)
	}
	return value.Result.Value[0], value.Result.Value[1], nil
}
