package schedule

import (
	"math/bits"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// begin makes a transfer of n pieces of 100 kB with peers that have these.
func begin(n int, peers ...[]int) *State {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = 100_000
	}
	s := New(sizes, 1)
	for slot, have := range peers {
		bits := make([]byte, (n+7)/8)
		for _, i := range have {
			bits[i/8] |= 1 << (i % 8)
		}
		s.Join(Peer(slot), bits)
	}
	return s
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// deliver has what was asked for come, and gives what the scheduler says then.
func deliver(t *testing.T, s *State, now time.Duration, a Action) {
	t.Helper()
	if !s.Picked(now, a.Peer, a.ID, a.Pieces[0]) || !s.Received(now, a.Peer, a.ID) {
		t.Fatalf("an answer to %+v was not wanted", a)
	}
	s.SetPresent(a.Pieces[0])
}

func TestDemandGoesToFastestPeer(t *testing.T) {
	s := begin(400, upTo(400), upTo(400))
	s.Want(Rest, upTo(400))
	for now := time.Duration(0); now < 100*ms; now += 10 * ms {
		for _, a := range s.Next(now) {
			if a.Peer == 1 && len(a.Pieces) == 1 {
				deliver(t, s, now+5*ms, a) // peer 1 delivers, peer 0 takes its time
			}
		}
	}
	i := slices.IndexFunc(upTo(400), func(i int) bool { return !s.pieces[i].arrived && len(s.pieces[i].flights) == 0 })
	s.Want(Demand, []int{i})
	list := s.Next(101 * ms)
	if len(list) == 0 || list[0].Class != Demand || list[0].Pieces[0] != i || list[0].Peer != 1 {
		t.Errorf("%+v", list)
	}
}

func TestDemandIsHedged(t *testing.T) {
	s := begin(4, upTo(4), upTo(4))
	s.Want(Demand, []int{2})
	first := s.Next(0)
	if len(first) != 1 || len(s.Next(20*ms)) != 0 {
		t.Fatalf("%+v", first)
	}
	second := s.Next(200 * ms)
	if len(second) != 1 || second[0].Peer == first[0].Peer || second[0].Pieces[0] != 2 || s.Stats().Hedged != 1 {
		t.Fatalf("%+v", second)
	}
	s.Picked(210*ms, second[0].Peer, second[0].ID, 2)
	if !s.Received(210*ms, second[0].Peer, second[0].ID) {
		t.Fatal("it was not wanted")
	}
	if got := s.SetPresent(2); len(got) != 1 || len(got[0].Pieces) > 0 || got[0].ID != first[0].ID {
		t.Errorf("the slower one goes on: %+v", got)
	}
	if s.Picked(220*ms, first[0].Peer, first[0].ID, 2) || s.Received(220*ms, first[0].Peer, first[0].ID) {
		t.Error("what was cancelled is taken")
	}
}

func TestRarestFirst(t *testing.T) {
	s := begin(30, upTo(30), upTo(30), upTo(30)[:29])
	s.Want(Rest, upTo(30))
	list := s.Next(0)
	if len(list) == 0 || !slices.Equal(list[0].Pieces, []int{29}) {
		t.Errorf("%+v", list)
	}
}

func TestSoleHolderChoosesPiece(t *testing.T) {
	s := begin(30, upTo(30), upTo(10))
	s.Want(Rest, upTo(30))
	for _, a := range s.Next(0) {
		if a.Peer == 0 && len(a.Pieces) != 20 {
			t.Errorf("asked the only holder of 20 pieces for %v", a.Pieces)
		}
		if a.Peer == 1 && (len(a.Pieces) != 1 || a.Pieces[0] >= 10) {
			t.Errorf("asked for what it does not have: %v", a.Pieces)
		}
	}
}

func TestSoonBeforeRest(t *testing.T) {
	s := begin(60, upTo(60), upTo(60))
	s.Want(Rest, upTo(60))
	s.Want(Soon, []int{50, 51})
	list := s.Next(0)
	var first []int
	for _, a := range list[:2] {
		first = append(first, a.Pieces...)
	}
	if slices.Sort(first); !slices.Equal(first, []int{50, 51}) {
		t.Errorf("%+v", list)
	}
}

func TestWrongBytesAreRequestedElsewhere(t *testing.T) {
	s := begin(10, upTo(10), upTo(10))
	s.Want(Rest, upTo(10))
	s.Next(0)
	s.Wrong(1, 3)
	if s.usable(&s.pieces[3]) != 1 {
		t.Error("it is asked for the same piece again")
	}
	if bits.OnesCount64(s.usable(&s.pieces[5])) != 2 {
		t.Error("its other pieces do not count")
	}
}

func TestStalledPeerIsSetAside(t *testing.T) {
	s := begin(10, upTo(10), upTo(10))
	s.Want(Rest, upTo(10))
	asked := map[Peer]int{}
	for now := time.Duration(0); now < 20*time.Second; now += 50 * ms {
		for _, a := range s.Next(now) {
			if len(a.Pieces) == 0 {
				continue
			}
			asked[a.Peer]++
			if a.Peer == 0 && s.Picked(now, a.Peer, a.ID, a.Pieces[0]) && s.Received(now, a.Peer, a.ID) {
				s.SetPresent(a.Pieces[0])
			}
		}
	}
	for i := range s.pieces {
		if !s.pieces[i].here {
			t.Errorf("piece %d did not come", i)
		}
	}
	if s.Stats().EndGame+s.Stats().Stalled == 0 {
		t.Errorf("%+v", s.Stats())
	}
}

func TestMissing(t *testing.T) {
	s := begin(10, []int{0, 1, 2}, []int{3, 4})
	s.Want(Rest, upTo(7))
	if got := s.Missing(); !slices.Equal(got, []int{5, 6}) {
		t.Errorf("%v", got)
	}
	s.Leave(1)
	if got := s.Missing(); !slices.Equal(got, []int{3, 4, 5, 6}) {
		t.Errorf("%v", got)
	}
	s.Has(0, 6, true)
	if got := s.Missing(); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("%v", got)
	}
}

func TestUnrequestedAnswersAreIgnored(t *testing.T) {
	s := begin(10, upTo(10), upTo(10))
	s.Want(Rest, []int{1})
	a := s.Next(0)[0]
	if s.Picked(0, a.Peer, a.ID, 2) || s.Picked(0, a.Peer, a.ID+7, 1) || s.Picked(0, a.Peer, a.ID, -1) || s.Picked(0, a.Peer, a.ID, 99) || s.Received(0, a.Peer, a.ID+7) {
		t.Error("it was taken")
	}
	s.Refused(0, a.Peer, a.ID+7)
	s.Progress(0, a.Peer, a.ID+7, 5)
	if got := s.live[a.ID]; got == nil || got.got != 0 {
		t.Errorf("%+v", got)
	}
}

// Requests are numbered one after the other, so every peer knows what the others are asked.
func TestAnswerFromOtherPeerIsIgnored(t *testing.T) {
	for _, open := range []bool{false, true} {
		have := [][]int{upTo(4), upTo(4)}
		if open {
			have[1] = nil // so that it has the choice
		}
		s := begin(4, have...)
		s.Want(Rest, []int{1, 2})
		a := s.Next(0)[0]
		other := 1 - a.Peer
		s.Refused(1*ms, other, a.ID)
		s.Progress(1*ms, other, a.ID, 5)
		if s.Picked(1*ms, other, a.ID, a.Pieces[0]) || s.Received(1*ms, other, a.ID) || s.Stats().Refused != 0 {
			t.Errorf("open %v: another peer answered %+v", open, a)
		}
		if got := s.live[a.ID]; got == nil || got.got != 0 || got.began || s.pieces[a.Pieces[0]].holders&(1<<a.Peer) == 0 {
			t.Errorf("open %v: the peer that was asked: %+v", open, got)
		}
		deliver(t, s, 2*ms, a)
		if !s.pieces[a.Pieces[0]].here {
			t.Errorf("open %v: it did not come", open)
		}
	}
}

func TestQueue(t *testing.T) {
	q := NewQueue[string, int]()
	for _, s := range []string{"a", "b"} {
		q.Open(s, 0, 10)
	}
	anyone := func(string) bool { return true }
	all := func(string, int) bool { return true }
	for id := range uint32(4) {
		q.Push("a", id, Rest, []int{1, 2, 3})
	}
	q.Push("b", 9, Rest, []int{1, 2, 3})
	var order []string
	pieces := map[int]int{}
	for {
		a, ok := q.Next(anyone, all)
		if !ok {
			break
		}
		q.Sent(a.Session, 100)
		order = append(order, a.Session)
		pieces[a.Piece]++
	}
	if i := slices.Index(order, "b"); i > 1 || len(order) != 5 {
		t.Errorf("who asks for little waits for who asks for much: %v", order)
	}
	if least, most := slices.Min(q.sent[0]), slices.Max(q.sent[0]); pieces[1] > 2 || pieces[2] > 2 || pieces[3] > 2 || least != 0 || most != 2 {
		t.Errorf("%v", pieces)
	}
	q.Push("a", 20, Rest, []int{5})
	q.Push("b", 21, Demand, []int{6})
	q.Push("b", 22, Rest, []int{7})
	q.Cancel("b", 22)
	if a, _ := q.Next(anyone, all); a.ID != 21 {
		t.Errorf("a demand waits: %+v", a)
	}
	if a, _ := q.Next(anyone, func(string, int) bool { return false }); a.ID != 20 || a.Piece != -1 {
		t.Errorf("%+v", a)
	}
	if q.Push("a", 1, Rest, []int{10}) || q.Push("a", 1, Rest, []int{-1}) || q.Push("a", 1, Rest, nil) || q.Push("c", 1, Rest, []int{1}) {
		t.Error("it took what does not exist")
	}
	for id := range uint32(MaxQueued) {
		q.Push("a", id, Demand, []int{1})
	}
	if q.Push("a", 99, Demand, []int{1}) {
		t.Error("it takes any number of requests")
	}
	q.Close("a")
	q.Close("b")
	if len(q.sent) != 0 || len(q.sessions) != 0 {
		t.Error("it remembers sessions that ended")
	}
}
