-- Made by make_database_6ec1646.py with the code of commit 6ec1646.
BEGIN TRANSACTION;
CREATE TABLE gpu_samples (
	job_uid VARCHAR(32) NOT NULL,
	task_name VARCHAR(64) NOT NULL,
	sampled_us BIGINT NOT NULL,
	gpus DOUBLE NOT NULL,
	memory_bytes BIGINT NOT NULL,
	PRIMARY KEY (job_uid, task_name, sampled_us)
);
CREATE TABLE jobs (
	sequence INTEGER NOT NULL,
	uid VARCHAR(32) NOT NULL,
	project VARCHAR(128) NOT NULL,
	job_id VARCHAR(128) NOT NULL,
	labels JSON NOT NULL,
	training_input JSON NOT NULL,
	state VARCHAR(16) NOT NULL,
	priority INTEGER NOT NULL,
	created_us BIGINT NOT NULL,
	preparing_us BIGINT,
	running_us BIGINT,
	ended_us BIGINT,
	error_message TEXT NOT NULL,
	images JSON DEFAULT '{}' NOT NULL,
	attempts JSON DEFAULT '{}' NOT NULL,
	outcome VARCHAR(16) DEFAULT '' NOT NULL,
	version INTEGER NOT NULL,
	study_uid VARCHAR(32) DEFAULT '' NOT NULL,
	trial JSON DEFAULT '{}' NOT NULL,
	PRIMARY KEY (sequence),
	UNIQUE (project, job_id),
	UNIQUE (uid)
);
INSERT INTO "jobs" VALUES(1,'e881f8d2d121','project','good','{}','{"masterConfig": {"imageUri": "registry.test/project/trainer:1"}}','SUCCEEDED',0,1767225600000000,1767225600000000,1767225600000000,1767225605000000,'','{"registry.test/project/trainer:1": "registry.test/project/trainer:1"}','{}','SUCCEEDED',4,'','{}');
INSERT INTO "jobs" VALUES(2,'ad0bba101d7f','project','bad','{}','{"masterConfig": {"imageUri": "registry.test/project/trainer:1"}}','FAILED',0,1767225605000000,1767225605000000,1767225605000000,1767225610000000,'The replica master 0 exited with a non-zero status of 3.','{"registry.test/project/trainer:1": "registry.test/project/trainer:1"}','{}','FAILED',4,'','{}');
INSERT INTO "jobs" VALUES(3,'5325a1602a70','project','cancelled','{}','{"masterConfig": {"imageUri": "registry.test/project/trainer:1"}}','CANCELLED',0,1767225610000000,1767225610000000,1767225610000000,1767225610000000,'The job was cancelled on request.','{"registry.test/project/trainer:1": "registry.test/project/trainer:1"}','{}','',5,'','{}');
INSERT INTO "jobs" VALUES(4,'5103606c77d2','project','tune','{}','{"args": ["--epochs", "3"], "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "maxParallelTrials": 1, "maxTrials": 3, "params": [{"maxValue": 1.0, "minValue": 0.001, "parameterName": "lr", "scaleType": "UNIT_LOG_SCALE", "type": "DOUBLE"}]}, "jobDir": "gs://bucket/tune", "masterConfig": {"imageUri": "registry.test/project/trainer:1"}}','RUNNING',0,1767225610000000,1767225610000000,1767225610000000,NULL,'','{"registry.test/project/trainer:1": "registry.test/project/trainer:1"}','{}','',3,'','{}');
INSERT INTO "jobs" VALUES(5,'caf445fcccb0','project','5103606c77d2/1','{}','{"args": ["--epochs", "3"], "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "maxParallelTrials": 1, "maxTrials": 3, "params": [{"maxValue": 1.0, "minValue": 0.001, "parameterName": "lr", "scaleType": "UNIT_LOG_SCALE", "type": "DOUBLE"}]}, "jobDir": "gs://bucket/tune", "masterConfig": {"imageUri": "registry.test/project/trainer:1"}}','SUCCEEDED',0,1767225610000000,1767225610000000,1767225610000000,1767225620000000,'','{"registry.test/project/trainer:1": "registry.test/project/trainer:1"}','{}','SUCCEEDED',4,'5103606c77d2','{"job_id": "tune", "sequence": 4, "number": 1, "hyperparameters": {"lr": "0.008069944028175402"}}');
INSERT INTO "jobs" VALUES(6,'35bd95b09cab','project','5103606c77d2/2','{}','{"args": ["--epochs", "3"], "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "maxParallelTrials": 1, "maxTrials": 3, "params": [{"maxValue": 1.0, "minValue": 0.001, "parameterName": "lr", "scaleType": "UNIT_LOG_SCALE", "type": "DOUBLE"}]}, "jobDir": "gs://bucket/tune", "masterConfig": {"imageUri": "registry.test/project/trainer:1"}}','RUNNING',0,1767225620000000,1767225620000000,1767225620000000,NULL,'','{"registry.test/project/trainer:1": "registry.test/project/trainer:1"}','{}','',3,'5103606c77d2','{"job_id": "tune", "sequence": 4, "number": 2, "hyperparameters": {"lr": "0.5416025331203176"}}');
INSERT INTO "jobs" VALUES(7,'2ba9902f2456','project','running','{"team": "a"}','{"args": ["--epochs", "9"], "jobDir": "gs://bucket/running", "masterConfig": {"imageUri": "registry.test/project/trainer:1"}, "masterType": "n1-standard-4", "scaleTier": "CUSTOM", "workerCount": "2", "workerType": "n1-standard-8"}','RUNNING',0,1767225620000000,1767225620000000,1767225620000000,NULL,'','{"registry.test/project/trainer:1": "registry.test/project/trainer:1"}','{}','',3,'','{}');
INSERT INTO "jobs" VALUES(8,'6e799da88024','project','waiting','{}','{"masterConfig": {"imageUri": "registry.test/project/trainer:1"}, "scheduling": {"maxWaitTime": "7200s", "priority": 5}}','QUEUED',5,1767225620000000,NULL,NULL,NULL,'','{}','{}','',1,'','{}');
CREATE TABLE log_entries (
	id INTEGER NOT NULL,
	project VARCHAR(128) NOT NULL,
	job_id VARCHAR(128) NOT NULL,
	task_name VARCHAR(64) NOT NULL,
	trial_id VARCHAR(16) NOT NULL,
	insert_id VARCHAR(64) NOT NULL,
	timestamp_us BIGINT NOT NULL,
	received_us BIGINT NOT NULL,
	severity VARCHAR(16) NOT NULL,
	text_payload TEXT,
	json_payload JSON,
	PRIMARY KEY (id),
	UNIQUE (project, job_id, task_name, insert_id)
);
INSERT INTO "log_entries" VALUES(1,'project','good','service','','state-QUEUED',1767225600000000,1767225600000000,'INFO',NULL,'{"message": "Job good is queued.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(2,'project','good','service','','state-PREPARING',1767225600000000,1767225600000001,'INFO',NULL,'{"message": "Job good is being prepared: pulling registry.test/project/trainer:1.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(3,'project','good','service','','note-8c2e8f77feb9764f',1767225600000000,1767225600000002,'INFO',NULL,'{"message": "Image of master-replica-0 is registry.test/project/trainer@sha256:0000000000000000000000000000000000000000000000000000000000000000."}');
INSERT INTO "log_entries" VALUES(4,'project','good','service','','note-91633ed1e33cd8ce',1767225600000000,1767225600000003,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(5,'project','good','service','','state-RUNNING',1767225600000000,1767225600000004,'INFO',NULL,'{"message": "Job good is running.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(6,'project','good','master-replica-0','','01767225600000000000-000000',1767225600000000,1767225605000000,'INFO','epoch 1',NULL);
INSERT INTO "log_entries" VALUES(7,'project','good','master-replica-0','','01767225600000000001-000000',1767225600000000,1767225605000001,'INFO','epoch 2',NULL);
INSERT INTO "log_entries" VALUES(8,'project','good','service','','state-SUCCEEDED',1767225605000000,1767225605000002,'INFO',NULL,'{"message": "Job completed successfully.", "state": "SUCCEEDED"}');
INSERT INTO "log_entries" VALUES(9,'project','bad','service','','state-QUEUED',1767225605000000,1767225605000003,'INFO',NULL,'{"message": "Job bad is queued.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(10,'project','bad','service','','state-PREPARING',1767225605000000,1767225605000004,'INFO',NULL,'{"message": "Job bad is being prepared: pulling registry.test/project/trainer:1.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(11,'project','bad','service','','note-ddd179c1e63c03bb',1767225605000000,1767225605000005,'INFO',NULL,'{"message": "Image of master-replica-0 is registry.test/project/trainer@sha256:0000000000000000000000000000000000000000000000000000000000000000."}');
INSERT INTO "log_entries" VALUES(12,'project','bad','service','','note-12aa8340f265942a',1767225605000000,1767225605000006,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(13,'project','bad','service','','state-RUNNING',1767225605000000,1767225605000007,'INFO',NULL,'{"message": "Job bad is running.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(14,'project','bad','master-replica-0','','01767225605000000000-000000',1767225605000000,1767225610000000,'INFO','no data',NULL);
INSERT INTO "log_entries" VALUES(15,'project','bad','service','','state-FAILED',1767225610000000,1767225610000001,'ERROR',NULL,'{"message": "Job failed: The replica master 0 exited with a non-zero status of 3.", "state": "FAILED"}');
INSERT INTO "log_entries" VALUES(16,'project','cancelled','service','','state-QUEUED',1767225610000000,1767225610000002,'INFO',NULL,'{"message": "Job cancelled is queued.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(17,'project','cancelled','service','','state-PREPARING',1767225610000000,1767225610000003,'INFO',NULL,'{"message": "Job cancelled is being prepared: pulling registry.test/project/trainer:1.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(18,'project','cancelled','service','','note-db62d4852b43a9cf',1767225610000000,1767225610000004,'INFO',NULL,'{"message": "Image of master-replica-0 is registry.test/project/trainer@sha256:0000000000000000000000000000000000000000000000000000000000000000."}');
INSERT INTO "log_entries" VALUES(19,'project','cancelled','service','','note-a365fbfecbae9b37',1767225610000000,1767225610000005,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(20,'project','cancelled','service','','state-RUNNING',1767225610000000,1767225610000006,'INFO',NULL,'{"message": "Job cancelled is running.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(21,'project','cancelled','service','','state-CANCELLING',1767225610000000,1767225610000007,'INFO',NULL,'{"message": "Job cancelled is being cancelled.", "state": "CANCELLING"}');
INSERT INTO "log_entries" VALUES(22,'project','cancelled','master-replica-0','','01767225610000000000-000000',1767225610000000,1767225610000008,'INFO','no data',NULL);
INSERT INTO "log_entries" VALUES(23,'project','cancelled','service','','state-CANCELLED',1767225610000000,1767225610000009,'INFO',NULL,'{"message": "Job cancelled.", "state": "CANCELLED"}');
INSERT INTO "log_entries" VALUES(24,'project','tune','service','','state-QUEUED',1767225610000000,1767225610000010,'INFO',NULL,'{"message": "Job tune is queued.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(25,'project','tune','service','','state-PREPARING',1767225610000000,1767225610000011,'INFO',NULL,'{"message": "Job tune is being prepared: pulling registry.test/project/trainer:1.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(26,'project','tune','service','','note-e243d7c684afc055',1767225610000000,1767225610000012,'INFO',NULL,'{"message": "Image of master-replica-0 is registry.test/project/trainer@sha256:0000000000000000000000000000000000000000000000000000000000000000."}');
INSERT INTO "log_entries" VALUES(27,'project','tune','service','1','state-QUEUED1',1767225610000000,1767225610000013,'INFO',NULL,'{"message": "Trial 1 is queued: --lr=0.008069944028175402.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(28,'project','tune','service','1','state-PREPARING1',1767225610000000,1767225610000014,'INFO',NULL,'{"message": "Trial 1 is being prepared.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(29,'project','tune','service','1','note-fd5da9376bd32f84',1767225610000000,1767225610000015,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(30,'project','tune','service','1','state-RUNNING1',1767225610000000,1767225610000016,'INFO',NULL,'{"message": "Trial 1 is running: --lr=0.008069944028175402.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(31,'project','tune','service','','state-RUNNING',1767225610000000,1767225610000017,'INFO',NULL,'{"message": "Job tune is running.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(32,'project','tune','service','1','state-SUCCEEDED1',1767225620000000,1767225620000000,'INFO',NULL,'{"message": "Trial 1 completed successfully.", "state": "SUCCEEDED"}');
INSERT INTO "log_entries" VALUES(33,'project','tune','service','2','state-QUEUED2',1767225620000000,1767225620000001,'INFO',NULL,'{"message": "Trial 2 is queued: --lr=0.5416025331203176.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(34,'project','tune','service','2','state-PREPARING2',1767225620000000,1767225620000002,'INFO',NULL,'{"message": "Trial 2 is being prepared.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(35,'project','tune','service','2','note-b355acbf1cba7965',1767225620000000,1767225620000003,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(36,'project','tune','service','2','state-RUNNING2',1767225620000000,1767225620000004,'INFO',NULL,'{"message": "Trial 2 is running: --lr=0.5416025331203176.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(37,'project','running','service','','state-QUEUED',1767225620000000,1767225620000005,'INFO',NULL,'{"message": "Job running is queued.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(38,'project','running','service','','state-PREPARING',1767225620000000,1767225620000006,'INFO',NULL,'{"message": "Job running is being prepared: pulling registry.test/project/trainer:1.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(39,'project','running','service','','note-b8b2d9b15aa4ee7f',1767225620000000,1767225620000007,'INFO',NULL,'{"message": "Image of master-replica-0 and 2 more is registry.test/project/trainer@sha256:0000000000000000000000000000000000000000000000000000000000000000."}');
INSERT INTO "log_entries" VALUES(40,'project','running','service','','note-3c324a0d0bb4d48b',1767225620000000,1767225620000008,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(41,'project','running','service','','note-ebfed48e3ec14649',1767225620000000,1767225620000009,'WARNING',NULL,'{"message": "n1-standard-8 has 8 cores and 30.0 GiB; this machine gives each of 2 replicas worker 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(42,'project','running','service','','state-RUNNING',1767225620000000,1767225620000010,'INFO',NULL,'{"message": "Job running is running.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(43,'project','waiting','service','','state-QUEUED',1767225620000000,1767225620000011,'INFO',NULL,'{"message": "Job waiting is queued.", "state": "QUEUED"}');
CREATE TABLE measurements (
	id INTEGER NOT NULL,
	job_uid VARCHAR(32) NOT NULL,
	source VARCHAR(512) NOT NULL,
	sequence BIGINT NOT NULL,
	tag VARCHAR(256) NOT NULL,
	step BIGINT NOT NULL,
	value DOUBLE,
	reported_us BIGINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (job_uid, source, sequence)
);
INSERT INTO "measurements" VALUES(1,'caf445fcccb0','0.0',0,'accuracy',1,1.0,1767225610000000);
CREATE TABLE meta (
	"key" VARCHAR(64) NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('schema_version','3');
INSERT INTO "meta" VALUES('service_id','6b4760653172');
CREATE TABLE policies (
	resource VARCHAR(512) NOT NULL,
	policy JSON NOT NULL,
	version INTEGER NOT NULL,
	PRIMARY KEY (resource)
);
CREATE TABLE spans (
	id INTEGER NOT NULL,
	job_uid VARCHAR(32) NOT NULL,
	kind VARCHAR(16) NOT NULL,
	name VARCHAR(512) NOT NULL,
	attempt VARCHAR(16) NOT NULL,
	started_us BIGINT NOT NULL,
	ended_us BIGINT,
	exit_code INTEGER,
	out_of_memory BOOLEAN NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (job_uid, kind, name, attempt)
);
INSERT INTO "spans" VALUES(1,'e881f8d2d121','PULL','registry.test/project/trainer:1','',1767225600000000,1767225600000000,NULL,0);
INSERT INTO "spans" VALUES(2,'e881f8d2d121','RUN','master-replica-0','0.0',1767225600000000,1767225605000000,0,0);
INSERT INTO "spans" VALUES(3,'ad0bba101d7f','PULL','registry.test/project/trainer:1','',1767225605000000,1767225605000000,NULL,0);
INSERT INTO "spans" VALUES(4,'ad0bba101d7f','RUN','master-replica-0','0.0',1767225605000000,1767225610000000,3,0);
INSERT INTO "spans" VALUES(5,'5325a1602a70','PULL','registry.test/project/trainer:1','',1767225610000000,1767225610000000,NULL,0);
INSERT INTO "spans" VALUES(6,'5325a1602a70','RUN','master-replica-0','0.0',1767225610000000,1767225610000000,143,0);
INSERT INTO "spans" VALUES(7,'5103606c77d2','PULL','registry.test/project/trainer:1','',1767225610000000,1767225610000000,NULL,0);
INSERT INTO "spans" VALUES(8,'caf445fcccb0','RUN','master-replica-0','0.0',1767225610000000,1767225620000000,0,0);
INSERT INTO "spans" VALUES(9,'35bd95b09cab','RUN','master-replica-0','0.0',1767225620000000,NULL,NULL,0);
INSERT INTO "spans" VALUES(10,'2ba9902f2456','PULL','registry.test/project/trainer:1','',1767225620000000,1767225620000000,NULL,0);
INSERT INTO "spans" VALUES(11,'2ba9902f2456','RUN','master-replica-0','0.0',1767225620000000,NULL,NULL,0);
INSERT INTO "spans" VALUES(12,'2ba9902f2456','RUN','worker-replica-0','0.0',1767225620000000,NULL,NULL,0);
INSERT INTO "spans" VALUES(13,'2ba9902f2456','RUN','worker-replica-1','0.0',1767225620000000,NULL,NULL,0);
CREATE TABLE usage_samples (
	id INTEGER NOT NULL,
	job_uid VARCHAR(32) NOT NULL,
	task_name VARCHAR(64) NOT NULL,
	sampled_us BIGINT NOT NULL,
	cpu_cores DOUBLE NOT NULL,
	memory_bytes BIGINT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX whole_jobs_in_queue ON jobs (state, priority DESC, sequence) WHERE study_uid = '';
CREATE INDEX whole_jobs_by_state_and_time ON jobs (project, state, created_us, sequence) WHERE study_uid = '';
CREATE INDEX jobs_by_state_and_sequence ON jobs (state, sequence);
CREATE INDEX whole_jobs_by_start ON jobs (project, running_us) WHERE study_uid = '';
CREATE INDEX whole_jobs_by_time ON jobs (project, created_us, sequence) WHERE study_uid = '';
CREATE INDEX trials_by_study_and_state ON jobs (study_uid, state);
CREATE INDEX whole_jobs_by_end ON jobs (project, ended_us) WHERE study_uid = '';
CREATE INDEX log_entries_by_time ON log_entries (project, job_id, timestamp_us, insert_id);
CREATE INDEX log_entries_by_arrival ON log_entries (project, job_id, received_us);
CREATE INDEX measurements_by_tag ON measurements (job_uid, tag, id);
CREATE INDEX measurements_by_job ON measurements (job_uid, id);
CREATE INDEX usage_samples_by_job ON usage_samples (job_uid, id);
COMMIT;
