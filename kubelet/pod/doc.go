// Package pod decides what a node does with one pod. It is pure: nothing in it blocks, asks a clock or acts.
//
//	     facts                      Take                 State                Reconcile                plan
//	what was learned, and ─────────────────────> all that is known of ─────────────────────> status, actions, events,
//	what came of actions                             the pod              node, time         next wake-up
//	       ▲                                                                                        │
//	       └─────────────────────────── the kubelet carries it out ─────────────────────────────────┘
//
// A State changes only by State.Take. A fact that does not fit changes nothing: the outcome of an action that is not
// in flight, a probe's result about an instance that was replaced, an event before the first full check. Failures, the
// keys under which they are kept, and the waits before something is tried again are decided in Take (tasks.go);
// Reconcile reads them.
//
// The files from the top down. Each uses only what is below it, so that each can be read without those above it.
//
//	replay.go, record.go         the log of facts: played again, and what may be written
//	invariants.go, view.go       what every plan keeps; a pod as the rest of the node sees it
//	reconcile.go                 Reconcile: does the pod run or end, then its status
//	run.go, end.go               the actions of a pod that should run, and of one that must end
//	status.go, conditions.go     what is published; phase.go: the phase
//	progress.go                  how far the containers are; restart.go, reset.go, resize_plan.go: when they change
//	stop.go, published.go        how something is stopped; what was published last
//	fact_*.go                    the facts, each with what Take makes of it
//	state.go                     State, which is made of the parts below: what one part means for another
//	tasks.go                     actions under way, failures, waits
//	objects.go                   sandboxes and containers: what was removed stays removed
//	images.go, volumes.go, …     one part each: also hooks.go, probes.go, resize.go, ending.go
//	plan.go, action.go           what comes out: plans, actions, their keys
//	observed/, desired/          the words for what the runtime has, and questions about a pod as its source has it
//
// The life of a pod on the node, as Reconcile sees it:
//
//	state        leaves it when
//	undecided    a source has the pod, or all sources are read (then it is an orphan)
//	running      deletion, a stop record, removal from the source, or a terminal phase → stopping
//	stopping     no container runs and none is being created → cleaning
//	cleaning     sandboxes stopped, volumes and cgroup gone → stopped
//	stopped      the pod is deleted from the API and its containers are removed → finished (the actor ends)
//
// In detail the state has parts, which change by these facts. Every other fact of a part leaves it as it is.
// TestTransitions plays each line, and each combination that is missing here.
//
//	part        state       fact                next
//	source      unknown     Desired             wanted
//	source      unknown     SourceGone          gone
//	source      unknown     SourcesReady        orphan
//	source      orphan      Desired             wanted
//	source      orphan      SourceGone          gone
//	source      wanted      Desired             wanted
//	source      wanted      SourceGone          gone
//	source      wanted      SourcesReady        wanted
//	source      gone        Desired             wanted
//	source      gone        SourceGone          gone
//	source      gone        SourcesReady        gone
//	source      gone        Stripped            stripped
//	source      deleted     Stripped            stripped
//	admission   open        Admitted            admitted
//	admission   open        Refused             refused
//	runtime     unread      Checked             read
//	runtime     read        Checked             read
//	runtime     read        Observed            read
//	runtime     read        Removed             read
//	action      idle        ActionStarted       in-flight
//	action      in-flight   ActionDropped       idle
//	action      in-flight   TaskPanicked        idle
//	volumes     preparing   VolumesPrepared     ready
//	volumes     preparing   VolumesFailed       failed
//	volumes     preparing   TaskPanicked        failed
//	image       pulling     ImagePresent        present
//	image       pulling     ImageFailed         failed
//	image       pulling     TaskPanicked        failed
//	image       present     Desired             missing     (another image)
//	sandbox     making      SandboxMade         ready
//	sandbox     making      SandboxFailed       none
//	sandbox     making      TaskPanicked        none
//	sandbox     ready       Observed            down        (it died)
//	sandbox     stopping    SandboxStopped      down
//	sandbox     stopping    SandboxStopFailed   ready
//	sandbox     removing    RemoveDone          none
//	sandbox     removing    RemoveFailed        down
//	container   starting    ContainerStarted    running
//	container   starting    StartFailed         created
//	container   starting    TaskPanicked        none
//	container   running     Observed            exited      (it ended)
//	container   stopping    ContainerStopped    exited
//	container   stopping    StopFailed          running
//	container   removing    RemoveDone          none
//	container   removing    RemoveFailed        exited
//	hook        starting    ContainerStarted    waiting
//	hook        waiting     ActionStarted       running
//	hook        running     HookDone            done
//	hook        running     HookFailed          failed
//	hook        running     TaskPanicked        failed
//	probe       unknown     Probed              known
//	probe       unknown     ProbeAdopted        known
//	probe       known       Probed              known
//	resize      unread      Recalled            agreed
//	resize      wanting     ResizeAgreed        open
//	resize      wanting     ResizeRefused       waiting
//	resize      waiting     ResizeAgreed        open
//	resize      waiting     ResizeRefused       waiting
//	resize      withdrawn   ResizeSettled       agreed
//	resize      barred      ResizeSettled       agreed
//	resize      resizing    Resized             agreed
//	end         running     NodeShutdown        told
//	end         running     Evicted             told
//	end         stopping    Evicted             stopping    (with less time)
//	end         cleaning    Evicted             cleaning
//	end         cleaned     Evicted             cleaned
//	end         reclaimed   Evicted             reclaimed
//	end         told        StopBegan           stopping
//	end         running     StopBegan           stopping
//	end         cleaning    CleanedUp           cleaned
//	end         cleaning    CleanupFailed       stopping
//	end         cleaned     Reclaimed           reclaimed
//	end         reclaimed   CleanedUp           reclaimed
//	report      sent        Published           sent
//	report      waiting     Published           waiting
//	report      waiting     EventsSent          sent
//
// Actions begin with ActionStarted and end with exactly one of the facts of fact_action.go; at most one action per key
// is in flight. A wait after a failure doubles from its first value to its bound.
package pod
