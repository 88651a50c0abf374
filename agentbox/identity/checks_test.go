package identity

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestChecks(t *testing.T) {
	begun := time.Unix(1000, 0).UTC()
	c := &Checks{File: filepath.Join(t.TempDir(), "checks.json")}
	tool, lock, pkg := Point{"tool", "go"}, Point{"lockfile", "go.sum"}, Point{"package", "x"}
	for i, one := range []Check{
		{Project: "app", Box: "b1", Commit: "1", Differs: []Point{pkg}}, // the next one replaces it
		{Project: "app", Box: "b1", Commit: "1", Differs: []Point{tool, lock}},
		{Project: "app", Box: "b1", Commit: "2"},
		{Project: "app", Box: "b2", Task: "t-1", Commit: "1", Differs: []Point{pkg}},
		{Project: "app", Box: "b3", Task: "t-1", Commit: "1", Differs: []Point{tool}}, // of the same task
		{Project: "other", Box: "b4", Differs: []Point{pkg}},
	} {
		one.Time = begun.Add(time.Duration(i) * time.Second)
		if err := c.Add(one); err != nil {
			t.Fatal(err)
		}
	}
	app, err := (&Checks{File: c.File}).Since(begun, "app") // as the next daemon
	want := Stats{Checks: 3, Tasks: 1, Disagreed: 2, By: []Count{{tool, 2}, {lock, 1}}}
	if got := Sum(app); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	late, err := c.Since(begun.Add(5*time.Second), "")
	if got := Sum(late); err != nil || got.Checks != 1 || got.By[0].Point != pkg {
		t.Errorf("%+v, %v", got, err)
	}
	if got := Sum(nil); got.By == nil {
		t.Error("no list")
	}
	for i := range maxPoints + 1 {
		late[0].Differs = append(late[0].Differs, Point{"package", fmt.Sprint(i)})
	}
	if err := c.Add(late[0]); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Since(begun, "other"); err != nil || len(all) != 1 || len(all[0].Differs) != maxPoints {
		t.Errorf("%d, %v", len(all), err)
	}
}
