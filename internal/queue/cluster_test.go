package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tundish/internal/job"
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

// TestOperationsInACluster: an operation lies beside the jobs of its lane, and the list of all on another node.
func TestOperationsInACluster(t *testing.T) {
	t.Parallel()
	db, err := redisdb.Open(t.Context(), redisdb.Config{URL: redistest.StartNodes(t, 3).URL(), Namespace: "default", CallTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for i := range 4 {
		b := &bench{t: t, lane: fmt.Sprint("bank-", i), db: db, s: New(db)}
		if b.keys, err = db.Keys().Lane(b.lane); err != nil {
			t.Fatal(err)
		}
		b.apply(perSecond(fast), "")
		b.endAs(KindDead, newJobs(60, "a")...)
		op := b.begin(OperationRequest{Kind: OperationRedrive, Filter: Filter{States: []job.State{job.Dead}}})
		wantOperation(t, b.goOn(op), OperationDone, 60, 60, 60, 60, 0)
		page, err := b.s.Jobs(context.Background(), b.lane, Query{Limit: 100})
		if err != nil || len(page.Jobs) != 60 || page.Jobs[0].Redrives != 1 {
			t.Errorf("%d jobs, %v", len(page.Jobs), err)
		}
		b.checkDump()
	}
	if ops, err := New(db).Operations(t.Context()); err != nil || len(ops) != 4 {
		t.Errorf("%d operations, %v", len(ops), err)
	}
}
