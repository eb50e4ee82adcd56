-- Made by make_deferred_6ec1646.py with the code of commit 6ec1646.
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
INSERT INTO "jobs" VALUES(1,'aded0db91174','demo-project','failing','{"airflow-dag": "before_the_move", "airflow-task": "submit_failing", "airflow-run": "manual__1", "airflow-owner": "356553cc1f154c1d89de16703a825a79", "airflow-request": "09b5d96afd9946da"}','{"masterConfig": {"imageUri": "registry.test/demo-project/failing:1"}, "region": "us-central1"}','FAILED',0,1795382743397254,1795382743410475,1795382743410475,1795382743410475,'The replica master 0 exited with a non-zero status of 3.','{"registry.test/demo-project/failing:1": "registry.test/demo-project/failing:1"}','{}','FAILED',4,'','{}');
INSERT INTO "jobs" VALUES(2,'d60c5fc7b0da','demo-project','running','{"airflow-dag": "before_the_move", "airflow-task": "submit_running", "airflow-run": "manual__1", "airflow-owner": "27f2e188b28a4251a433519d469167db", "airflow-request": "8e6d3e4df0da217c"}','{"masterConfig": {"imageUri": "registry.test/demo-project/running:1"}, "region": "us-central1"}','RUNNING',0,1795382744279841,1795382744286462,1795382744286462,NULL,'','{"registry.test/demo-project/running:1": "registry.test/demo-project/running:1"}','{}','',3,'','{}');
INSERT INTO "jobs" VALUES(3,'013fc9958315','demo-project','tuning','{"airflow-dag": "before_the_move", "airflow-task": "submit_tuning", "airflow-run": "manual__1", "airflow-owner": "c01377d6268c473393b906ff29259298", "airflow-request": "7ad30ed6696c3776"}','{"hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "maxParallelTrials": 1, "maxTrials": 2, "params": [{"maxValue": 1.0, "minValue": 0.1, "parameterName": "lr", "type": "DOUBLE"}]}, "masterConfig": {"imageUri": "registry.test/demo-project/tuning:1"}, "region": "us-central1"}','RUNNING',0,1795382745223686,1795382745230819,1795382750247504,NULL,'','{"registry.test/demo-project/tuning:1": "registry.test/demo-project/tuning:1"}','{}','',3,'','{}');
INSERT INTO "jobs" VALUES(4,'40a752861794','demo-project','013fc9958315/1','{"airflow-dag": "before_the_move", "airflow-task": "submit_tuning", "airflow-run": "manual__1", "airflow-owner": "c01377d6268c473393b906ff29259298", "airflow-request": "7ad30ed6696c3776"}','{"hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "maxParallelTrials": 1, "maxTrials": 2, "params": [{"maxValue": 1.0, "minValue": 0.1, "parameterName": "lr", "type": "DOUBLE"}]}, "masterConfig": {"imageUri": "registry.test/demo-project/tuning:1"}, "region": "us-central1"}','SUCCEEDED',0,1795382750236988,1795382750247504,1795382750247504,1795382750247504,'','{"registry.test/demo-project/tuning:1": "registry.test/demo-project/tuning:1"}','{}','SUCCEEDED',4,'013fc9958315','{"job_id": "tuning", "sequence": 3, "number": 1, "hyperparameters": {"lr": "0.882523845974356"}}');
INSERT INTO "jobs" VALUES(5,'704c630d0c49','demo-project','013fc9958315/2','{"airflow-dag": "before_the_move", "airflow-task": "submit_tuning", "airflow-run": "manual__1", "airflow-owner": "c01377d6268c473393b906ff29259298", "airflow-request": "7ad30ed6696c3776"}','{"hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "maxParallelTrials": 1, "maxTrials": 2, "params": [{"maxValue": 1.0, "minValue": 0.1, "parameterName": "lr", "type": "DOUBLE"}]}, "masterConfig": {"imageUri": "registry.test/demo-project/tuning:1"}, "region": "us-central1"}','RUNNING',0,1795382750529526,1795382750552225,1795382750552225,NULL,'','{"registry.test/demo-project/tuning:1": "registry.test/demo-project/tuning:1"}','{}','',3,'013fc9958315','{"job_id": "tuning", "sequence": 3, "number": 2, "hyperparameters": {"lr": "0.5036390816792846"}}');
INSERT INTO "jobs" VALUES(6,'480faacd57f3','demo-project','waiting','{"airflow-dag": "before_the_move", "airflow-task": "submit_waiting", "airflow-run": "manual__1", "airflow-owner": "f44133035f0149cea95de1ac7a9c1ba9", "airflow-request": "f3f8be7be0f196b7"}','{"masterConfig": {"imageUri": "registry.test/demo-project/waiting:1"}, "region": "us-central1"}','QUEUED',0,1795382751222377,NULL,NULL,NULL,'','{}','{}','',1,'','{}');
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
INSERT INTO "log_entries" VALUES(1,'demo-project','failing','service','','state-QUEUED',1795382743397254,1795382743401083,'INFO',NULL,'{"message": "Job failing is queued.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(2,'demo-project','failing','service','','state-PREPARING',1795382743410475,1795382743419615,'INFO',NULL,'{"message": "Job failing is being prepared: pulling registry.test/demo-project/failing:1.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(3,'demo-project','failing','service','','note-6bbc944689cacdc5',1795382743445230,1795382743445457,'INFO',NULL,'{"message": "Image of master-replica-0 is registry.test/demo-project/failing@sha256:0000000000000000000000000000000000000000000000000000000000000000."}');
INSERT INTO "log_entries" VALUES(4,'demo-project','failing','service','','note-bfd3642b39c548ad',1795382743456710,1795382743456975,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(5,'demo-project','failing','service','','state-RUNNING',1795382743410475,1795382743492161,'INFO',NULL,'{"message": "Job failing is running.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(6,'demo-project','running','service','','state-QUEUED',1795382744279841,1795382744282917,'INFO',NULL,'{"message": "Job running is queued.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(7,'demo-project','running','service','','state-PREPARING',1795382744286462,1795382744292130,'INFO',NULL,'{"message": "Job running is being prepared: pulling registry.test/demo-project/running:1.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(8,'demo-project','running','service','','note-9273183cd6fd48d2',1795382744316000,1795382744316378,'INFO',NULL,'{"message": "Image of master-replica-0 is registry.test/demo-project/running@sha256:0000000000000000000000000000000000000000000000000000000000000000."}');
INSERT INTO "log_entries" VALUES(9,'demo-project','running','service','','note-f76e993235b4b332',1795382744320243,1795382744320444,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(10,'demo-project','running','master-replica-0','','01795382744017540096-000000',1795382744017540,1795382744329440,'INFO','epoch 1',NULL);
INSERT INTO "log_entries" VALUES(11,'demo-project','running','master-replica-0','','01795382744017540097-000000',1795382744017540,1795382744329441,'INFO','epoch 2',NULL);
INSERT INTO "log_entries" VALUES(12,'demo-project','running','service','','state-RUNNING',1795382744286462,1795382744335492,'INFO',NULL,'{"message": "Job running is running.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(13,'demo-project','failing','service','','state-FAILED',1795382743410475,1795382744951345,'ERROR',NULL,'{"message": "Job failed: The replica master 0 exited with a non-zero status of 3.", "state": "FAILED"}');
INSERT INTO "log_entries" VALUES(14,'demo-project','tuning','service','','state-QUEUED',1795382745223686,1795382745225813,'INFO',NULL,'{"message": "Job tuning is queued.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(15,'demo-project','tuning','service','','state-PREPARING',1795382745230819,1795382745233902,'INFO',NULL,'{"message": "Job tuning is being prepared: pulling registry.test/demo-project/tuning:1.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(16,'demo-project','tuning','service','','note-56dccbadc2c49ce9',1795382745263708,1795382745263991,'INFO',NULL,'{"message": "Image of master-replica-0 is registry.test/demo-project/tuning@sha256:0000000000000000000000000000000000000000000000000000000000000000."}');
INSERT INTO "log_entries" VALUES(17,'demo-project','tuning','service','1','state-QUEUED1',1795382750236988,1795382750243097,'INFO',NULL,'{"message": "Trial 1 is queued: --lr=0.882523845974356.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(18,'demo-project','tuning','service','1','state-PREPARING1',1795382750247504,1795382750254168,'INFO',NULL,'{"message": "Trial 1 is being prepared.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(19,'demo-project','tuning','service','1','note-df08a0c1e5b0a9b0',1795382750279836,1795382750280202,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(20,'demo-project','tuning','service','1','state-RUNNING1',1795382750247504,1795382750315356,'INFO',NULL,'{"message": "Trial 1 is running: --lr=0.882523845974356.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(21,'demo-project','tuning','service','','state-RUNNING',1795382750247504,1795382750349559,'INFO',NULL,'{"message": "Job tuning is running.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(22,'demo-project','tuning','service','1','state-SUCCEEDED1',1795382750247504,1795382750486511,'INFO',NULL,'{"message": "Trial 1 completed successfully.", "state": "SUCCEEDED"}');
INSERT INTO "log_entries" VALUES(23,'demo-project','tuning','service','2','state-QUEUED2',1795382750529526,1795382750533896,'INFO',NULL,'{"message": "Trial 2 is queued: --lr=0.5036390816792846.", "state": "QUEUED"}');
INSERT INTO "log_entries" VALUES(24,'demo-project','tuning','service','2','state-PREPARING2',1795382750552225,1795382750558018,'INFO',NULL,'{"message": "Trial 2 is being prepared.", "state": "PREPARING"}');
INSERT INTO "log_entries" VALUES(25,'demo-project','tuning','service','2','note-0e9899594777a9c7',1795382750574391,1795382750574727,'WARNING',NULL,'{"message": "n1-standard-4 has 4 cores and 15.0 GiB; this machine gives master-replica-0 2 cores and 7.0 GiB."}');
INSERT INTO "log_entries" VALUES(26,'demo-project','tuning','service','2','state-RUNNING2',1795382750552225,1795382750588992,'INFO',NULL,'{"message": "Trial 2 is running: --lr=0.5036390816792846.", "state": "RUNNING"}');
INSERT INTO "log_entries" VALUES(27,'demo-project','waiting','service','','state-QUEUED',1795382751222377,1795382751224686,'INFO',NULL,'{"message": "Job waiting is queued.", "state": "QUEUED"}');
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
INSERT INTO "measurements" VALUES(1,'40a752861794','0.0',0,'accuracy',1,0.5,1795382744978229);
INSERT INTO "measurements" VALUES(2,'704c630d0c49','0.0',0,'accuracy',1,0.5,1795382745978229);
CREATE TABLE meta (
	"key" VARCHAR(64) NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('schema_version','3');
INSERT INTO "meta" VALUES('service_id','177a77e7e0e2');
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
INSERT INTO "spans" VALUES(1,'aded0db91174','PULL','registry.test/demo-project/failing:1','',1795382743440555,1795382743440608,NULL,0);
INSERT INTO "spans" VALUES(2,'aded0db91174','RUN','master-replica-0','0.0',1795382735815402,1795382736815402,3,0);
INSERT INTO "spans" VALUES(3,'d60c5fc7b0da','PULL','registry.test/demo-project/running:1','',1795382744306945,1795382744306988,NULL,0);
INSERT INTO "spans" VALUES(4,'d60c5fc7b0da','RUN','master-replica-0','0.0',1795382744017540,NULL,NULL,0);
INSERT INTO "spans" VALUES(5,'013fc9958315','PULL','registry.test/demo-project/tuning:1','',1795382745260807,1795382745260856,NULL,0);
INSERT INTO "spans" VALUES(6,'40a752861794','RUN','master-replica-0','0.0',1795382744978229,1795382745978229,0,0);
INSERT INTO "spans" VALUES(7,'704c630d0c49','RUN','master-replica-0','0.0',1795382745978229,NULL,NULL,0);
CREATE TABLE usage_samples (
	id INTEGER NOT NULL,
	job_uid VARCHAR(32) NOT NULL,
	task_name VARCHAR(64) NOT NULL,
	sampled_us BIGINT NOT NULL,
	cpu_cores DOUBLE NOT NULL,
	memory_bytes BIGINT NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "usage_samples" VALUES(1,'aded0db91174','master-replica-0',1795382743831185,0.0,1048576);
INSERT INTO "usage_samples" VALUES(2,'d60c5fc7b0da','master-replica-0',1795382744336548,0.0,1048576);
INSERT INTO "usage_samples" VALUES(3,'d60c5fc7b0da','master-replica-0',1795382746632443,2.09218847216732201088e-01,1048576);
INSERT INTO "usage_samples" VALUES(4,'d60c5fc7b0da','master-replica-0',1795382748819436,0.0,1048576);
INSERT INTO "usage_samples" VALUES(5,'40a752861794','master-replica-0',1795382750345591,0.0,1048576);
INSERT INTO "usage_samples" VALUES(6,'d60c5fc7b0da','master-replica-0',1795382750846672,2.46641044815570198434e-01,1048576);
INSERT INTO "usage_samples" VALUES(7,'704c630d0c49','master-replica-0',1795382750846704,0.0,1048576);
CREATE INDEX jobs_by_state_and_sequence ON jobs (state, sequence);
CREATE INDEX trials_by_study_and_state ON jobs (study_uid, state);
CREATE INDEX whole_jobs_in_queue ON jobs (state, priority DESC, sequence) WHERE study_uid = '';
CREATE INDEX whole_jobs_by_start ON jobs (project, running_us) WHERE study_uid = '';
CREATE INDEX whole_jobs_by_state_and_time ON jobs (project, state, created_us, sequence) WHERE study_uid = '';
CREATE INDEX whole_jobs_by_time ON jobs (project, created_us, sequence) WHERE study_uid = '';
CREATE INDEX whole_jobs_by_end ON jobs (project, ended_us) WHERE study_uid = '';
CREATE INDEX log_entries_by_arrival ON log_entries (project, job_id, received_us);
CREATE INDEX log_entries_by_time ON log_entries (project, job_id, timestamp_us, insert_id);
CREATE INDEX measurements_by_tag ON measurements (job_uid, tag, id);
CREATE INDEX measurements_by_job ON measurements (job_uid, id);
CREATE INDEX usage_samples_by_job ON usage_samples (job_uid, id);
COMMIT;
