-- A budget book as admeasure wrote it in format 1, dumped.
PRAGMA application_id = 1633971554;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE dataset (
    name TEXT PRIMARY KEY,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    rho TEXT NOT NULL,          -- exact, numerator/denominator
    created TEXT NOT NULL,
    closed TEXT
);
INSERT INTO "dataset" VALUES('adult',1.0,1.0e-09,'8631380090799389/576460752303423488','2026-10-01T08:00:00Z',NULL);
INSERT INTO "dataset" VALUES('census',2.0,1.0e-09,'8089257823197619/144115188075855872','2026-10-01T08:00:00Z','2026-10-03T08:00:00Z');
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset TEXT NOT NULL REFERENCES dataset (name),
    mechanism TEXT NOT NULL,
    release TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'released', 'failed')),
    rho TEXT NOT NULL,          -- what is charged now, exact
    reserved TEXT NOT NULL,     -- what was charged at first, exact
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    started TEXT NOT NULL,
    ended TEXT
);
INSERT INTO "entry" VALUES(1,'adult','aim','out/first [a1b2c3]','running','1/1000','1/1000',0.5,1.0e-09,'2026-10-02T08:00:00Z',NULL);
INSERT INTO "entry" VALUES(2,'adult','mst','out/second [d4e5f6]','released','1/3000','1/2000',0.25,1.0e-09,'2026-10-02T08:00:00Z','2026-10-03T08:00:00Z');
INSERT INTO "entry" VALUES(3,'census','mst','out/third [0a0b0c]','released','0','1/2000',0.25,1.0e-09,'2026-10-02T08:00:00Z','2026-10-03T08:00:00Z');
INSERT INTO "entry" VALUES(4,'adult','mst','in memory [0d0e0f]','failed','1/700','1/700',0.25,1.0e-09,'2026-10-03T08:00:00Z','2026-10-03T08:00:00Z');
CREATE INDEX entry_by_dataset ON entry (dataset);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('entry',4);
COMMIT;
